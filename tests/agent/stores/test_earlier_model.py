"""Any files beside any sessions of the database: lists, finding, opening and deleting follow a simple model."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.stores.earlier_made import Earlier, session
from agent.stores.port.kinds import NOW
from agent.stores.port.said import HERE, THERE, facts, message
from atomic_sessions.clock import tag

IDS = [f"0{n}c22c81-7192-70af-aa13-6f2a524f0b20" for n in range(4)]


class Made(NamedTuple):
    """A session in a place: a file, or the database for copy 0."""

    identity: str
    copy: int
    cwd: str
    at: int
    messages: int


MADE = st.builds(
    Made,
    st.sampled_from(IDS),
    st.integers(0, 2),
    st.sampled_from([HERE, THERE]),
    st.integers(0, 5).map(lambda n: NOW + n * 1000),
    st.integers(1, 3),
)
STEPS = st.lists(st.tuples(st.sampled_from(["open", "delete"]), st.sampled_from(IDS)), max_size=3)


def newest(made: Made) -> tuple[int, bytes, int, int]:
    """Which copy counts: the newest message, then the one with more, then the first by its file's name."""
    return made.at, tag(f"e{made.messages}"), made.messages, -made.copy


@settings(max_examples=40, deadline=None)
@given(
    st.lists(MADE, max_size=8, unique_by=lambda made: (made.identity, made.copy)),
    STEPS,
    st.integers(0, 4),
    st.integers(-1, 4),
)
def test_lists_follow_the_model(
    made: list[Made], steps: list[tuple[str, str]], offset: int, limit: int
) -> None:
    """What the database has counts, else the newest copy; deleted ones never; pages of all and of a project agree."""
    with TemporaryDirectory() as root:
        place = Earlier(Path(root))
        store = place.store()
        model: dict[str, Made] = {}
        for one in sorted(made, key=lambda one: (one.copy == 0, newest(one))):
            model[one.identity] = one
        for one in made:
            texts = [f"text {n}" for n in range(one.messages)]
            if one.copy:
                place.put(
                    f"{one.copy}/{one.identity}.jsonl", *session(one.identity, *texts, cwd=one.cwd, at=one.at)
                )
            else:
                mine = place.database()
                begun = one.at - 1000 * one.messages
                mine.create(
                    facts(mine, one.identity, cwd=one.cwd, at=begun),
                    [
                        message(f"e{n}", f"e{n - 1}" if n > 1 else None, texts[n - 1], at=begun + 1000 * n)
                        for n in range(1, one.messages + 1)
                    ],
                )
        for what, identity in steps:
            if identity in model and what == "open":
                opened = store.open(store.find(identity, "").key)
                assert (opened.messages, opened.newest_at) == (model[identity].messages, model[identity].at)
            elif identity in model:
                store.delete(store.find(identity, "").key)
                del model[identity]
        order = sorted(model.values(), key=lambda one: one.identity)
        order.sort(key=lambda one: (one.at, tag(f"e{one.messages}")), reverse=True)
        end = None if limit < 0 else offset + limit
        for again in (store, place.store()):
            for cwd in (None, HERE, THERE):
                wanted = [one.identity for one in order if cwd is None or one.cwd == cwd]
                project = None if cwd is None else store.project_of(cwd)
                found = again.listed(project=project, folder=cwd or "", limit=limit, offset=offset)
                assert [row.facts.id for row in found] == wanted[offset:end]
        place.close()
