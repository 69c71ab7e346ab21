import pickle
import socket
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes import generation_request

from afterword.engine.engine_refusal import Refusal
from afterword.engine.events import Chunk, Finished, PromptDone, PromptScores, SampledToken
from afterword.engine.llama.engine_thread import Progress
from afterword.engine.tracker import Counters
from afterword.engine.worker.worker_messages import Add, Cancel, Step, packed, read, unpacked

TOKEN = SampledToken(3, 5, -0.1, ((3, -0.1), (4, float("-inf"))), (-2.5,))
STEP = Step(
    [
        (1, Chunk(0, "a\U0001f600", (TOKEN,), 1)),
        (2, Finished(1, "length", 3, -0.5, 3)),
        (3, Refusal("failed", "It broke.")),
    ],
    Progress(1, 2, 3, (0.5,)),
    Counters(steps=4, step_rows=(1, 2)),
)
MESSAGES: list[Any] = [Add(1, generation_request([1, 2], stops=("x",), pending=b"\xf0")), Cancel(1), STEP]


@given(st.lists(st.sampled_from(MESSAGES), max_size=5), st.randoms(use_true_random=False))
def test_messages_come_out_whole_however_they_are_cut(sent: list[Any], random: Any) -> None:
    data, received = b"".join(map(packed, sent)), bytearray()
    found: list[Any] = []
    while data:
        n = random.randint(1, 200)
        received += data[:n]
        data = data[n:]
        found += unpacked(received)
    assert found == sent
    assert received == b""


def test_scores_cross_to_the_bit() -> None:
    scores = PromptScores(np.array([-0.1, -np.inf]), np.array([[1], [2]], np.int32), np.array([[-1.5], [-2.5]]))
    (found,) = unpacked(bytearray(packed(Step([(1, PromptDone(0, scores))], Progress(0, 0, 0), Counters()))))
    arrived = found.told[0][1].scores
    for name in ("logprobs", "top_ids", "top_logprobs"):
        assert getattr(arrived, name).tobytes() == getattr(scores, name).tobytes()
        assert getattr(arrived, name).dtype == getattr(scores, name).dtype


@pytest.mark.parametrize("cut", [0, 2, 4, 50])
def test_a_connection_that_ends_within_a_message_has_none(cut: int) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(packed(STEP) + packed(Cancel(7))[:cut])
        theirs.close()
        assert read(ours) == STEP
        assert read(ours) is None


def test_a_message_larger_than_the_socket_s_buffer_is_read_whole() -> None:
    message = Add(1, generation_request(range(1_000_000)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = threading.Thread(target=theirs.sendall, args=(packed(message),))
        writer.start()
        found = read(ours)
        writer.join()
    assert pickle.dumps(found) == pickle.dumps(message)
