"""Union of copies: the laws that let machines agree."""

from hypothesis import given

from atomic_sessions.entry import Entry
from atomic_sessions.merge import canonical, clashing_id, union
from strategies import clashing, forests


@given(clashing())
def test_union_is_commutative(copies: list[dict[str, Entry]]) -> None:
    """Whoever comes first, the result is the same."""
    one, two, three = copies
    assert union(one, two, three) == union(three, two, one) == union(two, one, three)


@given(clashing())
def test_union_is_associative(copies: list[dict[str, Entry]]) -> None:
    """However the copies are grouped, the result is the same."""
    one, two, three = copies
    assert union(union(one, two), three) == union(one, union(two, three))


@given(clashing())
def test_union_is_idempotent(copies: list[dict[str, Entry]]) -> None:
    """Joining again what was joined changes nothing."""
    merged = union(*copies)
    assert union(merged, merged) == merged
    assert union(merged, copies[0]) == merged


@given(clashing())
def test_no_line_is_lost(copies: list[dict[str, Entry]]) -> None:
    """Every distinct line of every copy stands in the union exactly once."""
    lines = {entry.raw for copy in copies for entry in copy.values()}
    merged = union(*copies)
    assert sorted(entry.raw for entry in merged.values()) == sorted(lines)


def test_two_lines_under_one_id_become_siblings() -> None:
    """The line with the lesser digest keeps the id, the other gets one with its digest."""
    first, second = Entry("x", None, 0, 1, b"one"), Entry("x", None, 0, 1, b"two")
    merged = union({"x": first}, {"x": second})
    assert len(merged) == 2
    assert {clashing_id("x", b"one"), clashing_id("x", b"two")} & set(merged)
    assert "x" in merged


@given(forests())
def test_canonical_order_keeps_a_files_own_order(entries: list[Entry]) -> None:
    """The lines of one copy come out as they stood in the file."""
    assert canonical(reversed(entries)) == entries
