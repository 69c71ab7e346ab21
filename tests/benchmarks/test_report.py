"""Medians, ratios and the shape of a result file."""

import json

import pytest
from benchmarks.report import Failure, Figure, Key, Record, Start, direction, document, figures, gain, summary, table

RATE = "out_tokens_per_s"


def measured(number: int, server: str, value: float, metric: str = RATE, at: int | None = None) -> Figure:
    return Figure(number, server, "concurrent", metric, at, value)


def key(server: str, metric: str = RATE) -> Key:
    return Key(server, "concurrent", metric)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param("decode_tokens_per_s", 1, id="rate"),
        pytest.param("wall_s", -1, id="seconds"),
        pytest.param("first_token_ms", -1, id="milliseconds"),
        pytest.param("stream_token_us", -1, id="microseconds"),
        pytest.param("peak_mib", -1, id="memory"),
        pytest.param("engine_allocations_per_token", -1, id="allocations"),
        pytest.param("client_busy_share", -1, id="share"),
    ],
)
def test_the_unit_tells_which_way_is_better(metric: str, expected: int) -> None:
    assert direction(metric) == expected


def test_a_metric_without_a_known_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="choices"):
        direction("choices")


def test_sizes_are_taken_off_the_names_of_metrics() -> None:
    assert figures(2, "ours", "growth-clients", {"wall_s@16": 4.0, "wall_s": 1.0}) == [
        Figure(2, "ours", "growth-clients", "wall_s", 16, 4.0),
        Figure(2, "ours", "growth-clients", "wall_s", None, 1.0),
    ]


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # The machine was slow in round 2 and slower in round 3: the ratio of the medians would be 1.0.
    found = [
        measured(1, "ours", 300.0),
        measured(1, "peer", 100.0),
        measured(2, "ours", 100.0),
        measured(2, "peer", 50.0),
        measured(3, "ours", 10.0),
        measured(3, "peer", 5.0),
        measured(4, "ours", 100.0),
    ]
    assert gain(found, key("ours"), key("peer")) == 2.0


def test_a_ratio_above_one_is_better_also_where_less_is_better() -> None:
    found = [measured(1, "ours", 20.0, "first_token_ms"), measured(1, "peer", 50.0, "first_token_ms")]
    assert gain(found, key("ours", "first_token_ms"), key("peer", "first_token_ms")) == 2.5


def test_rounds_that_only_one_server_has_give_no_ratio() -> None:
    found = [measured(1, "ours", 20.0), measured(2, "peer", 50.0)]
    assert gain(found, key("ours"), key("peer")) is None


def test_sizes_are_not_mixed() -> None:
    found = [measured(1, "ours", 20.0, at=16), measured(1, "peer", 50.0, at=4)]
    assert [line.ratios for line in summary(found, ["peer"])] == [{}, {"peer": 1.0}]


def test_a_line_holds_median_extremes_and_ratios() -> None:
    found = [measured(n, server, n * scale) for n in (1, 2, 3) for server, scale in (("ours", 30.0), ("peer", 10.0))]
    ours, peer = summary(found, ["peer", "absent"])
    assert (ours.key.server, ours.median, ours.low, ours.high, ours.n_rounds) == ("ours", 60.0, 30.0, 90.0, 3)
    assert ours.ratios == {"peer": 3.0}
    assert peer.ratios == {"peer": 1.0}


def test_the_result_file_holds_facts_summary_and_every_figure() -> None:
    record = Record(
        figures=[measured(1, "ours", 20.0)],
        starts=[Start(1, "ours", "concurrent", 1.5, 0.25)],
        failures=[Failure(1, "peer", "score", "Refused: 400")],
    )
    written = json.loads(json.dumps(document(record, ["peer"], {"date": "2026-01-02"})))
    assert written == {
        "date": "2026-01-02",
        "references": ["peer"],
        "summary": [
            {
                "server": "ours",
                "group": "concurrent",
                "metric": RATE,
                "at": None,
                "median": 20.0,
                "low": 20.0,
                "high": 20.0,
                "n_rounds": 1,
                "ratios": {},
            }
        ],
        "figures": [
            {"round": 1, "server": "ours", "group": "concurrent", "metric": RATE, "at": None, "value": 20.0},
        ],
        "starts": [{"round": 1, "server": "ours", "group": "concurrent", "unix_time": 1.5, "load_1m": 0.25}],
        "failures": [{"round": 1, "server": "peer", "group": "score", "reason": "Refused: 400"}],
    }


def test_the_table_orders_sizes_as_numbers_and_gives_each_ratio_under_its_reference() -> None:
    found = [measured(1, server, float(at), at=at) for at in (16, 4) for server in ("ours", "peer")]
    rows = [row.split() for row in table(summary(found, ["peer"]), ["peer"]).splitlines()]
    assert rows[0][-2:] == ["/", "peer"]
    assert [(row[2], row[3], row[-1]) for row in rows[1:]] == [
        ("4", "ours", "1.000"),
        ("4", "peer", "1.000"),
        ("16", "ours", "1.000"),
        ("16", "peer", "1.000"),
    ]
