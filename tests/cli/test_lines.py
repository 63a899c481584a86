"""Lines of keys, however the file is written."""

from __future__ import annotations

import tomllib

import pytest

from ggmc.cli.study.lines import line_numbers, line_of

TRICKY = '''
# [not] a = table
a = 1

[one]   # a comment with [brackets]
text = """
x = 3
[two]
ends with a quote\\""""
raw = \'\'\'
y = "\'\'\'
list = [
    1, # ]
    2,
]
inline = { p = 1, "q r" = { s = "}" } }
dotted.key . deep = true
"quoted key" = 1

  [two."*.bias"]
scale = 2
[[many]]
b = 1
'''


def test_tricky_file() -> None:
    tomllib.loads(TRICKY)
    lines = line_numbers(TRICKY)
    written = TRICKY.split("\n")
    expected = {
        ("a",): "a = 1",
        ("one",): "[one]",
        ("one", "text"): 'text = """',
        ("one", "raw"): "raw = '''",
        ("one", "list"): "list = [",
        ("one", "inline"): "inline =",
        ("one", "dotted", "key", "deep"): "dotted.key",
        ("one", "quoted key"): '"quoted key"',
        ("two", "*.bias"): '  [two."*.bias"]',
        ("two", "*.bias", "scale"): "scale = 2",
        ("many",): "[[many]]",
        ("many", "b"): "b = 1",
    }
    assert set(lines) == set(expected)
    for keys, beginning in expected.items():
        assert written[lines[keys] - 1].startswith(beginning), keys


@pytest.mark.parametrize(
    ("keys", "line"),
    [(("one", "inline", "p"), 16), (("one", "nothing"), 5), (("one", "dotted"), 17), (("two",), 20), (("no",), None)],
)
def test_what_is_not_known_is_near_something_known(keys: tuple[str, ...], line: int | None) -> None:
    assert line_of(line_numbers(TRICKY), keys) == line
