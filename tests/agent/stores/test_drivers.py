"""Drivers of other people and our own: found, told their options, and never replaced by another store."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from atomic_agent.config.errors import SelectionError
from atomic_agent.config.selection import DriverSelection
from atomic_agent.stores import drivers
from atomic_sessions.errors import AtomicError, StoreUnavailableError

SECRET = "hunter2"
Install = Callable[..., None]

DRIVER = """
    from atomic_agent.stores.memory import MemoryStore

    told = []

    def open_it(options, flags):
        told.append((options, flags))
        store = MemoryStore()
        store.flags = flags
        return store
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Lays a package as pip does, with its entry point, where Python looks for them."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def lay(name: str, source: str = DRIVER, *, module: str = "", call: str = "open_it") -> None:
        module = module or f"driver_of_{name}"
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        folder = tmp_path / f"{module}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[atomic_sessions.stores]\n{name} = {module}:{call}\n")

    return lay


def test_a_driver_is_told_its_options_and_flags(install: Install) -> None:
    """Variables are read wherever they are named, and the store answers the flags that lead back to it."""
    install("mine")
    selection = DriverSelection("mine", {"url": {"env": "MY_URL"}, "more": [1, {"x": {"env": "MY_URL"}}]})
    store = drivers.open_driver(selection, {"MY_URL": SECRET})
    told = sys.modules["driver_of_mine"].told
    assert told == [({"url": SECRET, "more": [1, {"x": SECRET}]}, store.flags)]
    assert store.flags == (
        "--storage",
        '{"driver": "mine", "options": {"url": {"env": "MY_URL"}, "more": [1, {"x": {"env": "MY_URL"}}]}}',
    )


def test_no_flags_lead_to_a_secret(install: Install) -> None:
    """Options that hold text of their own are in no command."""
    install("mine")
    assert drivers.open_driver(DriverSelection("mine", {"url": SECRET}), {}).flags == ()


def test_an_unknown_driver() -> None:
    """The error lists those there are; of our own it says how to install it."""
    with pytest.raises(SelectionError) as caught:
        drivers.open_driver(DriverSelection("mongo", {"url": SECRET}), {})
    assert "installed: " in caught.value.message
    assert "postgres" in caught.value.message
    assert SECRET not in str(caught.value)


def test_our_own_is_installed_and_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package brings the entry point; where a system hides it, the way to it is in the error."""
    assert "postgres" in drivers.installed()
    monkeypatch.setattr(drivers, "GROUP", "nothing.here")
    with pytest.raises(SelectionError) as caught:
        drivers.open_driver(DriverSelection("postgres", {}), {})
    assert "pip install 'atomic-sessions[postgres]'" in caught.value.mend


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client that is missing is named, with what brings it."""
    for name in [name for name in sys.modules if name.startswith("atomic_agent.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreUnavailableError) as caught:
        drivers.open_driver(DriverSelection("postgres", {"url": SECRET}), {})
    assert "asyncpg is missing" in caught.value.message
    assert "pip install 'atomic-sessions[postgres]'" in caught.value.mend
    assert SECRET not in str(caught.value)


def test_nothing_is_imported_before_it_is_chosen(install: Install) -> None:
    """A driver that breaks at its import hurts only whoever chose it."""
    install("broken", "import nothing_by_that_name")
    install("mine")
    assert {"broken", "mine"} <= set(drivers.installed())
    drivers.open_driver(DriverSelection("mine", {}), {})
    assert "driver_of_broken" not in sys.modules
    with pytest.raises(StoreUnavailableError, match="nothing_by_that_name is missing"):
        drivers.open_driver(DriverSelection("broken", {}), {})


def test_a_driver_without_its_callable(install: Install) -> None:
    """An entry point that leads nowhere is a driver that cannot be loaded."""
    install("mine", call="gone")
    with pytest.raises(StoreUnavailableError, match="cannot be loaded"):
        drivers.open_driver(DriverSelection("mine", {}), {})


@pytest.mark.parametrize("environ", [{}, {"MY_URL": ""}])
def test_a_variable_that_is_not_set(install: Install, environ: dict[str, str]) -> None:
    """It is named, what others hold is not; the driver is not asked."""
    install("mine")
    selection = DriverSelection("mine", {"password": SECRET, "deep": {"url": {"env": "MY_URL"}}})
    with pytest.raises(SelectionError) as caught:
        drivers.open_driver(selection, environ)
    assert "MY_URL" in caught.value.message
    assert SECRET not in str(caught.value)
    assert sys.modules["driver_of_mine"].told == []
    with pytest.raises(SelectionError, match="names no variable"):
        drivers.open_driver(DriverSelection("mine", {"url": {"env": 5}}), {})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise ValueError('bad ' + options['url'])", "failed with ValueError"),
        ("raise StoreUnavailableError('It sleeps.', 'Wake it.')", "It sleeps. Wake it."),
    ],
)
def test_a_driver_that_fails(install: Install, body: str, says: str) -> None:
    """Its own error of ours is told as it is; of any other only the kind, which cannot hold a secret."""
    source = "from atomic_sessions.errors import StoreUnavailableError\ndef open_it(options, flags):\n    "
    install("mine", source + body)
    with pytest.raises(StoreUnavailableError) as caught:
        drivers.open_driver(DriverSelection("mine", {"url": SECRET}), {})
    assert says in str(caught.value)
    seen: BaseException | None = caught.value
    while seen is not None and not seen.__suppress_context__:
        seen = seen.__context__
        assert SECRET not in str(seen)


@pytest.mark.parametrize("line", ["store.syncs = True", "store.flags = ('--no-session',)"])
def test_a_driver_keeps_to_the_port(install: Install, line: str) -> None:
    """One that says it syncs, or that another command leads back to it, is refused."""
    install("mine", DRIVER.replace("store.flags = flags", f"store.flags = flags\n        {line}"))
    with pytest.raises(StoreUnavailableError, match="does not keep to"):
        drivers.open_driver(DriverSelection("mine", {}), {})


def test_two_drivers_of_one_name(install: Install) -> None:
    """Nobody can take a name that is taken; both packages are named."""
    install("mine")
    install("mine", module="impostor")
    with pytest.raises(SelectionError) as caught:
        drivers.open_driver(DriverSelection("mine", {}), {})
    assert "driver-of-mine" in caught.value.message.replace("_", "-")
    assert "impostor" in caught.value.message


def test_no_option_is_in_a_repr() -> None:
    """A selection may be printed anywhere."""
    assert SECRET not in repr(DriverSelection("mine", {"password": SECRET}))
    assert issubclass(SelectionError, AtomicError)
