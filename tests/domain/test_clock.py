"""Times: reading them, and the stamp that keeps a chain in order."""

from hypothesis import given
from hypothesis import strategies as st

from atomic_sessions.clock import MAX_SKEW_MS, iso, parse_time, stamp
from strategies import TIMES


@given(st.integers(0, 253_402_300_799_999))
def test_iso_and_back(millis: int) -> None:
    """Every millisecond until the year 9999 survives the text form."""
    assert parse_time(iso(millis)) == millis


@given(st.none() | TIMES, TIMES, TIMES)
def test_a_stamp_is_after_its_parent_and_not_far_ahead(native: int | None, parent: int, now: int) -> None:
    """I12: above the parent always; else never more than five minutes ahead of the clock."""
    found = stamp(native, parent, now)
    assert found > parent
    assert found <= max(parent + 1, now + MAX_SKEW_MS)


@given(st.one_of(st.text(), st.floats(), st.booleans(), st.lists(st.integers()), st.none()))
def test_nonsense_is_no_time(value: object) -> None:
    """Anything that is not a time reads as None or a whole number, and never raises."""
    found = parse_time(value)
    assert found is None or found >= 0
