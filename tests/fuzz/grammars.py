"""Grammars as a client may send them: well-formed, broken, and made to take long; the same for the same seed."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from afterword.fields.grammars import MAX_GRAMMAR_CHARACTERS, Grammar, Kind

Json = Any

EDGES: tuple[int, ...] = (0, 1, 2, 3, 7, 20, 100, 1000, 2001, 65_536, 1_000_000, 2**31, 2**63, -1)


def grammars(seed: int, count: int) -> Iterator[Grammar]:
    """`count` of them, those that are made to take long first."""
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        if number < len(HOSTILE):
            grammar = HOSTILE[number]
        else:
            kind: Kind = chance.choice(("json_schema", "json_schema", "regex", "regex", "gbnf", "lark", "choice"))
            text = _WRITERS[kind](chance)
            grammar = Grammar(kind, _changed(text, chance) if chance.random() < 0.3 else text)
        if len(grammar.text) <= MAX_GRAMMAR_CHARACTERS:
            yield grammar


def _changed(text: str, chance: random.Random) -> str:
    """The text with some characters changed, repeated or left out."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(text) + 1)
        length = chance.choice((1, 1, 3, 10))
        piece = chance.choice(
            ("", text[at : at + length] * chance.choice((2, 50, 500)), chance.choice('(){}[]|*+?"\\/\x00ü'))
        )
        text = text[:at] + piece + text[at + length :]
    return text


def _count(chance: random.Random) -> int:
    counts: tuple[int, ...] = (*EDGES, *range(6), *range(6), *range(6))
    return chance.choice(counts)


def _regex(chance: random.Random, depth: int = 0) -> str:
    match chance.randrange(10 if depth < 5 else 4):
        case 0 | 1:
            return chance.choice(("a", "b", "ab", "0", " ", "ü", r"\n", r"\"", r"\\", "🙂"))
        case 2:
            return chance.choice(
                (".", r"\d", r"\w", r"\s", r"\S", "[a-z]", "[^a]", r"\p{L}", r"[^\x00-\x1f]", "(?s:.)")
            )
        case 3:
            return chance.choice(("^", "$", r"\b", "(?=a)", "(?!a)", "(?i)", r"\1", ""))
        case 4 | 5:
            return _regex(chance, depth + 1) + _regex(chance, depth + 1)
        case 6:
            return "(" + "|".join(_regex(chance, depth + 1) for _ in range(chance.choice((2, 3, 8, 30)))) + ")"
        case 7:
            return f"({_regex(chance, depth + 1)}){chance.choice(('*', '+', '?', '*?', '+?'))}"
        case 8:
            return f"({_regex(chance, depth + 1)}){{{_count(chance)}{chance.choice(('', ',', f',{_count(chance)}'))}}}"
    return f"(.*{_regex(chance, depth + 1)})"


_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object", "nonsense")


def _schema(chance: random.Random, depth: int = 0) -> Json:
    """Of any shape: keywords beside each other that mean nothing together, and numbers at their edges."""
    if chance.random() < 0.05:
        return chance.choice((True, False, None, 5, {}, []))
    schema: dict[str, Json] = {}
    if chance.random() < 0.8:
        schema["type"] = chance.choice((*_TYPES, list(_TYPES[:3])))
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        name = chance.choice(tuple(_KEYWORDS) if depth < 4 else _FLAT)
        schema[name] = _KEYWORDS[name](chance, depth + 1)
    if depth == 0:
        schema["$defs"] = {name: _schema(chance, 2) for name in "abc"}
    return schema


def _schemas(chance: random.Random, depth: int) -> list[Json]:
    return [_schema(chance, depth) for _ in range(chance.choice((1, 2, 3, 12)) if depth < 3 else 1)]


def _members(chance: random.Random, depth: int) -> dict[str, Json]:
    n = chance.choice((0, 1, 2, 5, 60)) if depth < 3 else 1
    return {chance.choice(("a", "b", "", "ü", f"p{i}")): _schema(chance, depth) for i in range(n)}


def _value(chance: random.Random, depth: int) -> Json:
    return chance.choice((None, True, 0, -1.5, 1e300, "", "a", 'q"\\', "ü🙂", [], {}, [1, {"a": []}], "x" * 300))


def _ref(chance: random.Random, depth: int) -> str:
    return chance.choice(("#", "#/$defs/a", "#/$defs/b", "#/$defs/c", "#/$defs/none", "http://example.com/x", "a"))


def _edge(chance: random.Random, depth: int) -> Json:
    return chance.choice((_count(chance), _count(chance), -1e308, 0.1, 1e-9, 123456.789))


_KEYWORDS: dict[str, Callable[[random.Random, int], Json]] = {
    "properties": _members,
    "patternProperties": lambda chance, depth: {_regex(chance, 3): _schema(chance, depth) for _ in range(2)},
    "additionalProperties": _schema,
    "items": _schema,
    "prefixItems": _schemas,
    "anyOf": _schemas,
    "oneOf": _schemas,
    "allOf": _schemas,
    "not": _schema,
    "if": _schema,
    "required": lambda chance, depth: [chance.choice("abcü") for _ in range(3)],
    "dependentRequired": lambda chance, depth: {"a": ["b"]},
    "$ref": _ref,
    "enum": lambda chance, depth: [_value(chance, depth) for _ in range(chance.choice((0, 1, 5, 500)))],
    "const": _value,
    "minimum": _edge,
    "maximum": _edge,
    "exclusiveMinimum": _edge,
    "multipleOf": _edge,
    "minLength": lambda chance, depth: _count(chance),
    "maxLength": lambda chance, depth: _count(chance),
    "minItems": lambda chance, depth: _count(chance),
    "maxItems": lambda chance, depth: _count(chance),
    "minProperties": lambda chance, depth: _count(chance),
    "maxProperties": lambda chance, depth: _count(chance),
    "uniqueItems": lambda chance, depth: True,
    "pattern": lambda chance, depth: _regex(chance, 2),
    "format": lambda chance, depth: chance.choice(("date-time", "email", "uuid", "ipv6", "uri", "regex", "nonsense")),
    "x-guidance": lambda chance, depth: {"whitespace_flexible": chance.choice((True, False, 5))},
}
_FLAT = tuple(
    name for name in _KEYWORDS if name not in {"properties", "anyOf", "oneOf", "allOf", "prefixItems", "items"}
)


def _gbnf(chance: random.Random) -> str:
    names = ["root", *(f"r{i}" for i in range(chance.choice((0, 2, 6))))]
    return "\n".join(f"{name} ::= {_rule(chance, names, gbnf=True)}" for name in names)


def _lark(chance: random.Random) -> str:
    names = ["start", *(f"r{i}" for i in range(chance.choice((0, 2, 6))))]
    terminals = [f"T{i}: /{_regex(chance, 2)}/" for i in range(3)]
    terminals += [f"U: T0 & ~{chance.choice(('T1', '/a+/'))}", "V: T1 | T2"] if chance.random() < 0.3 else []
    extra = chance.choice(
        ("", "", "%ignore /[ ]+/", "%ignore T0", f"x: %json {json.dumps(_schema(chance, 2))}", "%import x")
    )
    rules = [f"{name}: {_rule(chance, [*names, 'T0', 'T1', 'T2'], gbnf=False)}" for name in names]
    return "\n".join([*rules, *terminals, extra])


def _rule(chance: random.Random, names: list[str], *, gbnf: bool, depth: int = 0) -> str:
    match chance.randrange(8 if depth < 4 else 3):
        case 0:
            return json.dumps(chance.choice(("a", "b", "ab", " ", "\n", "ü", "x" * 50, "")), ensure_ascii=False)
        case 1 | 2:
            return chance.choice(names)
        case 3:
            return chance.choice(("[a-z]", "[^a]", "[ü]", ".")) if gbnf else f"/{_regex(chance, 3)}/"
        case 4 | 5:
            return " ".join(_rule(chance, names, gbnf=gbnf, depth=depth + 1) for _ in range(2))
        case 6:
            parts = [_rule(chance, names, gbnf=gbnf, depth=depth + 1) for _ in range(chance.choice((2, 3, 20)))]
            return "(" + " | ".join(parts) + ")"
    times = chance.choice(("*", "+", "?", f"{{{_count(chance)}}}", f"{{{_count(chance)},{_count(chance)}}}"))
    return f"({_rule(chance, names, gbnf=gbnf, depth=depth + 1)}){times}"


def _choice(chance: random.Random) -> str:
    n = chance.choice((1, 2, 10, 300, 3000))
    return json.dumps([chance.choice("abü ") * chance.choice((0, 1, 5, 40)) + str(i % 7) for i in range(n)])


_WRITERS: dict[Kind, Callable[[random.Random], str]] = {
    "json_schema": lambda chance: json.dumps(_schema(chance)),
    "regex": _regex,
    "gbnf": _gbnf,
    "lark": _lark,
    "choice": _choice,
}


def _nested(times: int, schema: Json) -> str:
    return '{"type":"array","items":' * times + json.dumps(schema) + "}" * times


def _either(depth: int) -> Json:
    """References that double with each definition."""
    twice = {
        f"a{i}": {"allOf": [{"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"required": [k]}]} for k in "xy"]}
        for i in range(depth)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**twice, f"a{depth}": {"type": "object"}}}


def _guidance(names: int) -> Json:
    """Grammars, each twice in the one before."""
    rules = [{"name": f"g{i}", "lark_grammar": f"start: @g{i + 1} @g{i + 1}"} for i in range(names)]
    return {"grammars": [{"lark_grammar": "start: @g0"}, *rules, {"name": f"g{names}", "lark_grammar": 'start: "a"'}]}


HOSTILE = (
    *(
        Grammar("regex", text)
        for text in (
            "a{1000000}",
            "(a|b){1,1000000000}",
            "((a{100}){100}){100}",
            "((((a{1,50}){1,50}){1,50}){1,50}){1,50}",
            "(((a*)*)*)*b",
            "(.*a){30}",
            "(a|b)*a(a|b){200}",
            "|".join(f".*{letter}.*{letter}.*" for letter in "abcdefghijklmnopqrstuvwxyz"),
            r"(\p{L}|\p{N}){1,20000}",
            "(" * 20_000 + "a" + ")" * 20_000,
            "[" * 5000,
            "(?i)" + r"\w" * 2000,
        )
    ),
    *(
        Grammar("json_schema", json.dumps(schema))
        for schema in (
            {"enum": [f"value number {i}" for i in range(6000)]},
            {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3000)}},
            {"type": "object", "patternProperties": {f"^{i}.*{i}$": {} for i in range(100)}},
            {"oneOf": [{"properties": {f"p{i}": {"const": i}}} for i in range(500)]},
            {"allOf": [{"anyOf": [{"required": [f"{i}{j}"]} for j in range(4)]} for i in range(10)]},
            _either(12),
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
            {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}},
            {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
            {"type": "string", "minLength": 10**6, "maxLength": 10**7},
            {"type": "string", "pattern": "^(a|b)*a(a|b){15}$", "minLength": 1000, "maxLength": 10_000},
            {"type": "integer", "multipleOf": 999_983},
            {"type": "number", "minimum": -1.2e300, "maximum": 1.2e300, "multipleOf": 1e-9},
            {"const": "x" * 190_000},
        )
    ),
    Grammar("json_schema", _nested(4000, {})),
    Grammar("json_schema", _nested(100, {"type": "string"})),
    *(
        Grammar("lark", text)
        for text in (
            'start: e\ne: e e | "a" | e e e',
            "start: A\nA: /(.*a){10}/ & /(.*b){10}/ & ~/(.*c.*d){6}/",
            "start: A\nA: ~/(.*a.{12})/",
            'start: ("a" | "b"){100000}',
            'start: x{1,20000}\nx: y{1,2000}\ny: "a"{1,200}',
            'start: x*\nx: ("" | y)*\ny: x x x x',
            "start: " + "(" * 50_000 + '"a"' + ")" * 50_000,
            "start: " + " ".join(["x"] * 20_000) + '\nx: "a" | "b"',
        )
    ),
    Grammar("lark", 'start: (" " T "b" /(?i)/)*\nT: /🙂/\n%ignore /[ ]+/'),
    Grammar("gbnf", 'root ::= "a"{1,100000}'),
    Grammar("gbnf", "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000),
    Grammar("gbnf", 'root ::= root root | "a"'),
    Grammar("choice", json.dumps([f"the choice {i}" for i in range(9000)])),
    Grammar("choice", json.dumps(["x" * 190_000])),
    Grammar("choice", json.dumps(["x" * length for length in range(600)])),
    Grammar("guidance", json.dumps(_guidance(30))),
    Grammar("guidance", json.dumps({"grammars": [{"json_schema": {"type": "object"}}] * 2000})),
)
"""Each aims at one way in which a reader of grammars may take for ever, or all memory."""
