"""`./dev demo`: the main job, end to end, on an embedded service and two machines in a temporary folder.

Ends with a non-zero code at the first thing that is not as it should be.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from atomic_agent.demo import samples
from atomic_agent.demo.browser import text_of_page
from atomic_agent.demo.stage import DemoError, LocalModel, Machine, Service, Steps, expect

FIRST = "Write down in one line what we found, for the changelog."
SECOND = "And which test would have caught it?"
APART_ONE = "While apart on the first machine: note the owner join."
APART_TWO = "While apart on the second machine: note the missing index."


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev demo",
        description="The main job on an embedded default: nothing to configure, nothing left behind.",
    )
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="real session files or folders to use"
    )
    parser.add_argument("--keep", action="store_true", help="leave the service up and say how to reach it")
    parser.add_argument("--provider", help="a configured provider for the turns (default: a small local one)")
    parser.add_argument("--model", help="its model")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="atomic-demo-"))
    code = 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        Demo(root, options).run()
        code = 0
    except DemoError as error:
        print(f"FAILED: {error}", flush=True)
    except KeyboardInterrupt:
        code = 130
    finally:
        if code == 0 and not options.keep:
            shutil.rmtree(root)
        elif code:
            print(f"What there was is in {root}.", file=sys.stderr)
    sys.exit(code)


class Demo:
    """The story, told in steps."""

    def __init__(self, root: Path, options: argparse.Namespace) -> None:
        self.root = root
        self.options = options
        self.steps = Steps()
        self.service = Service(root / "service", keep=options.keep)
        self.model: LocalModel | None = None
        self.session = ""

    def run(self) -> None:
        try:
            settings = self._begin()
            one = Machine("laptop", self.root, settings)
            two = Machine("desktop", self.root, settings)
            self._capture(one)
            self._log_in(one)
            self._join(one, two)
            self._continue(one, two)
            self._apart(one, two)
            self._export(two)
            self._share(one)
            self._sealed()
            if self.options.keep:
                self._kept(one, two)
            else:
                with self.steps.step("the service stops"):
                    self.service.stop()
        except BaseException:
            if not self.options.keep:
                self.service.stop()
            raise
        finally:
            if self.model is not None and not self.options.keep:
                self.model.stop()
        took = time.monotonic() - self.steps.started
        print(f"All {self.steps.count} steps went as they should, in {took:.1f} s.")

    def _begin(self) -> dict[str, str]:
        with self.steps.step("the service starts (embedded Postgres, a folder for objects)") as told:
            self.service.start()
            told.append(self.service.url)
        if self.options.provider:
            return {}
        self.model = LocalModel(self.root, keep=self.options.keep)
        return {"OPENAI_BASE_URL": self.model.url, "OPENAI_API_KEY": "local"}

    def _with(self) -> list[str]:
        provider = self.options.provider or "openai"
        return ["--provider", provider, "--model", self.options.model or "demo-model"]

    def _capture(self, one: Machine) -> None:
        if not self.options.paths:
            samples.write(one.home, one.folder)
        for path in self.options.paths or [None]:
            name = "the sessions of Claude Code and pi" if path is None else str(path)
            with self.steps.step(f"capture on the laptop: {name}") as told:
                where = [] if path is None else ["--from", str(path.absolute())]
                report = json.loads(one.atomic("capture", "--json", *where))
                told.append(f"{report['new']} sessions, {report['entries']} entries")
                if report["damaged"] or report["skipped"]:
                    told.append(
                        f"{report['damaged']} damaged lines kept, {len(report['skipped'])} files skipped"
                    )
        expect(_sessions(one), "no session came in")

    def _log_in(self, one: Machine) -> None:
        with self.steps.step("the laptop makes an account and syncs") as told:
            told.append(
                one.atomic(
                    "login", self.service.url, "--invite", "-", "--name", "laptop", stdin=self.service.invite
                )
                .strip()
                .splitlines()[-1]
            )

    def _join(self, one: Machine, two: Machine) -> None:
        with self.steps.step("the desktop joins") as told:
            text = one.atomic("devices", "add")
            waiting = two.start("login", self.service.url, "--join", "-", "--name", "desktop", stdin=text)
            assert waiting.stdout is not None
            assert waiting.stderr is not None
            words = next(
                (
                    line.removeprefix("Words: ").strip()
                    for line in waiting.stdout
                    if line.startswith("Words: ")
                ),
                "",
            )
            expect(words, f"the desktop showed no words: {waiting.stderr.read()[-300:] if not words else ''}")
            one.atomic("devices", "approve", "--yes", "-", stdin=words)
            rest = waiting.stdout.read()
            expect(waiting.wait(60) == 0, f"the desktop was not let in: {waiting.stderr.read()[-300:]}")
            waiting.stdout.close()
            waiting.stderr.close()
            told.append(f"compared words: {words}; {rest.strip().splitlines()[-1]}")
        with self.steps.step("both list the same sessions") as told:
            ours, theirs = _sessions(one), _sessions(two)
            expect(
                ours == theirs,
                f"{len(ours)} sessions on the laptop, {len(theirs)} on the desktop, not the same",
            )
            told.append(f"{len(theirs)}")

    def _continue(self, one: Machine, two: Machine) -> None:
        if not any(s["project"] == _project(two) for s in _sessions(one)):
            # Real files come from folders that are not here: take their newest session into this project.
            with self.steps.step("the laptop goes on with the newest captured session") as told:
                newest = next((s for s in _sessions(one) if s["messages"]), None)
                expect(newest is not None, "no captured session has messages")
                assert newest is not None
                told.append(_short(one.atomic("--session", str(newest["id"]), "-p", FIRST, *self._with())))
        with self.steps.step("the desktop goes on with `atomic -c -p`") as told:
            told.append(_short(two.atomic("-c", "-p", FIRST, *self._with())))
        with self.steps.step("the laptop goes on after syncing") as told:
            told.append(_short(one.atomic("-c", "-p", SECOND, *self._with())))
            two.atomic("sync")
        mine = [s for s in _sessions(one) if s["project"] == _project(one)]
        expect(
            mine == [s for s in _sessions(two) if s["project"] == _project(two)],
            "the project's sessions differ",
        )
        self.session = str(mine[0]["id"])
        told_one, told_two = one.atomic("show", self.session), two.atomic("show", self.session)
        expect(told_one == told_two and FIRST in told_one and SECOND in told_one, "the conversations differ")

    def _apart(self, one: Machine, two: Machine) -> None:
        with self.steps.step("the service is away; both machines go on with the same session") as told:
            self.service.stop()
            told.append(_short(one.atomic("-c", "-p", APART_ONE, *self._with())))
            two.atomic("-c", "-p", APART_TWO, *self._with())
        with self.steps.step("the service is back with its data; both sync") as told:
            self.service.start()
            one.atomic("sync")
            two.atomic("sync")
            one.atomic("sync")
            told.append(self.service.url)
        with self.steps.step("the newest message decides, the other branch stays, the same on both") as told:
            shown = one.atomic("show", self.session)
            expect(shown == two.atomic("show", self.session), "the machines open different branches")
            expect(APART_TWO in shown and APART_ONE not in shown, "the newest message does not decide")
            whole = one.atomic("export", self.session, "-", "--as", "jsonl")
            expect(APART_ONE in whole, "the other branch is gone")
            expect(
                whole == two.atomic("export", self.session, "-", "--as", "jsonl"),
                "the machines hold different trees",
            )
            told.append(f"open: \u201c{APART_TWO}\u201d")

    def _export(self, two: Machine) -> None:
        with self.steps.step("the desktop exports HTML") as told:
            path = two.home / "session.html"
            told.append(two.atomic("export", self.session, str(path)).strip().replace(str(two.home), "~"))
            expect(APART_TWO in path.read_text(encoding="utf-8"), "the page lacks the last message")

    def _share(self, one: Machine) -> None:
        with self.steps.step("the laptop shares it under a sealed link") as told:
            link = one.atomic("share", self.session, "--yes").strip()
            told.append(link.split("#")[0] + "#…")
        with self.steps.step("a browser opens the link") as told:
            shown = text_of_page(link, APART_TWO)
            expect(FIRST in shown, "the page does not show the conversation")
            told.append(f"{len(shown)} characters of text, decrypted in the page")

    def _sealed(self) -> None:
        with self.steps.step("nothing readable lies at the service") as told:
            searched = 0
            for path in sorted(self.service_files()):
                content = path.read_bytes()
                searched += len(content)
                for text in (FIRST, SECOND, APART_ONE, APART_TWO, "demo/project"):
                    expect(text.encode() not in content, f"{path.name} at the service holds message text")
            told.append(f"{searched / 1e6:.0f} MB of database and objects searched")

    def service_files(self) -> list[Path]:
        return [path for path in (self.root / "service").rglob("*") if path.is_file()]

    def _kept(self, one: Machine, two: Machine) -> None:
        print(f"\nThe service stays up at {self.service.url}; its data is in {self.root / 'service'}.")
        for machine in (one, two):
            names = ("HOME", "ATOMIC_HOME", "ATOMIC_KEY_FILE", "OPENAI_BASE_URL", "OPENAI_API_KEY")
            variables = " ".join(f"{n}='{machine.environment[n]}'" for n in names if n in machine.environment)
            print(f"As the {machine.name}: cd '{machine.folder}' && {variables} atomic sessions")
        pids = [self.service.pid, *([self.model.pid] if self.model is not None else [])]
        print(f"To end what runs: kill {' '.join(map(str, pids))}")


def _sessions(machine: Machine) -> list[dict[str, object]]:
    """All sessions as the machine lists them, without the machine's own names."""
    found = [json.loads(line) for line in machine.atomic("sessions", "--json", "--internal").splitlines()]
    for one in found:
        del one["machines"]
    return found


def _project(_: Machine) -> str:
    return "git:git.example.com/demo/project"


def _short(answer: str) -> str:
    flat = " ".join(answer.split())
    return f"\u201c{flat[:60]}…\u201d" if len(flat) > 60 else f"\u201c{flat}\u201d"


if __name__ == "__main__":
    main()
