"""Kill commands with SIGKILL at random moments, go on, and count what was lost, differs or was asked for again.

    python benchmarks/kills.py                       # 200 kills of run, 20 or 50 each of the others (make long)
    python benchmarks/kills.py --only run evolve --kills 20

Every command plays on an invented hospital against a scripted model over HTTP, whose replies follow from the request
alone, so that an undisturbed run and a killed one must end alike. A process that has imported everything forks one
child per attempt: a kill costs no start. A reply counts as asked for again without need when the server had sent it
more than a second before a kill and its request comes once more. A command that ends before it is killed is not run
again: it would be refused. `train sft` needs the extra [train], and is left out where that is not installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "learning")]

from fake_server import Answer, FakeServer, text, tools  # noqa: E402
from forking import Forks, is_running  # noqa: E402
from wardround.cli import main as wardround  # noqa: E402
from wardround.memory import Bank  # noqa: E402
from wardround.records import Store  # noqa: E402
from wardround.runs import RunFolder, RunSettings, execute, score_run, start  # noqa: E402
from wardround.synth import synthesize  # noqa: E402

ACKNOWLEDGED_SECONDS = 1.0
PER_ROUND = 10
EHRSHOT = ["ehrshot", "--allow-missing", "--per-task", "16", "--task", "guo_los", "lab_anemia"]
KILLS = {"run": 200, "evolve": 50, "grid": 50, "predict": 50, "ingest": 50, "bench build": 50}
KILLS |= {"memory build": 20, "protocol induce": 20, "train sft": 20}
ASKING = ("run", "evolve", "grid", "memory build")
"""They ask a model."""


PARTED = ("success_decision", "failure_decision", "why_fatal", "consequence")
DRAFT = {"condition": "a question of labs", "exclusions": [], "task_type": "test", "steps": [1]}
CONSTRUCTION: dict[str, Callable[[str], Any]] = {
    "Find where": lambda name: dict.fromkeys(PARTED, "said") | {"divergence_step": 1},
    "An attempt at": lambda name: DRAFT | {"title": f"Lesson {name[:8]}", "content": f"read rows {name[:16]}"},
    "Name the few": lambda name: {
        "entities": [{"entity": "labs", "role": "condition"}, {"entity": f"row {name[0]}", "role": "action"}]
    },
    "Show how": lambda name: {"edges": []},
    "Two experiences": lambda name: {"joint_use": int(name[:2], 16) / 255, "relation": "related"},
    "Which of these": lambda name: {"same": []},
}
"""What the model says in `memory build`, by how a question opens."""


class Speaker:
    """The model: what it says, and how long it takes, follows from the request. It notes when each reply went out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: list[tuple[str, float]] = []

    def __call__(self, body: Any) -> Answer:
        name = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        draw = random.Random(name)
        seconds = 1.6 if draw.random() < 0.03 else draw.uniform(0.01, 0.15)
        with self._lock:
            self.sent.append((name, time.monotonic() + seconds))
        return replace(self._said(body, name, draw), seconds=seconds)

    def _said(self, body: Any, name: str, draw: random.Random) -> Answer:
        if "tools" not in body:
            asked = body["messages"][-1]["content"]
            drawn = next((said for opening, said in CONSTRUCTION.items() if asked.startswith(opening)), None)
            if drawn is not None:
                pair = "\n".join(sorted(asked.splitlines()))  # of a pair the same, whichever of them comes first
                return text(json.dumps(drawn(hashlib.sha256(pair.encode()).hexdigest())))
            lesson = f"### Item 1\nTitle: Lesson {name[:12]}\nDescription: Always\nContent: Look again, then answer."
            return text("Verdict: failure" if "Verdict:" in asked else lesson)
        if body.get("tool_choice") == "none":
            return text(str(1 + draw.randrange(2)))
        acted = sum(message["role"] == "tool" for message in body["messages"])
        if acted < 5:
            wanted = draw.choice(["labevents", "prescriptions", "admissions", "transfers"])
            return tools(("get_latest_records", json.dumps({"table_name": wanted, "limit": draw.randrange(1, 9)})))
        return tools(("finish", json.dumps({"response": [draw.choice(["Gout", "Sepsis", "Home"])]})))

    def asked(self) -> Counter[str]:
        """How often each request came."""
        with self._lock:
            return Counter(name for name, _ in self.sent)

    def unsure(self, killed: float, since: float) -> Iterable[str]:
        """Requests of one attempt whose reply had not been there for a second when the kill came."""
        with self._lock:
            return [name for name, at in self.sent if since <= at and at > killed - ACKNOWLEDGED_SECONDS]

    def clear(self) -> None:
        """Begin anew."""
        with self._lock:
            self.sent.clear()


@dataclass(slots=True, kw_only=True)
class Row:
    """The table's row of one command."""

    command: str
    kills: int = 0
    at_work: int = 0
    lost: int = 0
    different: int = 0
    asked_again: int = 0
    without_need: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Campaign:
    """What every command's kills share."""

    place: Path
    children: Forks
    speaker: Speaker
    url: str
    moments: random.Random
    span_seconds: float

    def kill(self, words: list[str], row: Row, *, span: float | None = None) -> bool:
        """Start a command, kill it at a random moment; return whether it was still at work."""
        since = time.monotonic()
        process = self.children.start(words)
        time.sleep(self.moments.uniform(0.0, span or self.span_seconds))
        killed = time.monotonic()
        working = is_running(process)
        with suppress(ProcessLookupError):  # it ended just now
            os.killpg(process, signal.SIGKILL)
        while is_running(process):
            time.sleep(0.002)
        row.kills += 1
        row.at_work += working
        self.unsure.update(self.speaker.unsure(killed, since))
        return working

    unsure: Counter[str] = field(default_factory=Counter)

    def count_asked(self, row: Row, undisturbed: Counter[str]) -> None:
        """Count requests that came more often than undisturbed, and those of them that no kill explains."""
        for name, number in (self.speaker.asked() - undisturbed).items():
            row.asked_again += number
            row.without_need += max(0, number - self.unsure[name])
        self.speaker.clear()
        self.unsure.clear()

    # The commands

    def run(self, kills: int) -> Row:
        """``wardround run``: two methods, one of which asks for several actions at once."""
        return self._episodes("run", kills, agents=("react", "reflectool-cs"), words=["run", "--resume"])

    def grid(self, kills: int) -> Row:
        """``wardround grid``: the run, its scores and its report."""
        words = ["grid", "--no-episodes", "--resume"]
        return self._episodes("grid", kills, agents=("react", "resum", "retrosum"), words=words)

    def _episodes(self, command: str, kills: int, *, agents: tuple[str, ...], words: list[str]) -> Row:
        row = Row(command=command)
        settings = self.settings.changed(agents=agents, split="test", limit=5, epochs=2, window=3)
        if "reflectool-cs" in agents:
            settings = settings.changed(bank=str(self.place / "bank.sqlite"))
        whole = start(self.place / f"{command}-whole", settings)
        execute(whole, concurrency=3)
        expected, undisturbed = scores_of(whole), self.speaker.asked()
        self.speaker.clear()
        while row.kills < kills:
            folder = start(self.place / f"{command}-{row.kills}", settings)
            for kill in range(min(PER_ROUND, kills - row.kills)):
                workers = "2" if kill == PER_ROUND - 1 else "1"
                self.kill([*words, str(folder.path), "--workers", workers, "--concurrency", "3"], row)
            execute(RunFolder.open(folder.path), concurrency=3)
            found = scores_of(folder)
            row.lost += len(expected.keys() - found.keys())
            differing = [key for key in found if found[key] != expected.get(key)]
            row.different += len(differing)
            row.examples += differing[:2]
            self.count_asked(row, undisturbed)
            shutil.rmtree(folder.path)
        return row

    def evolve(self, kills: int) -> Row:
        """``wardround memory evolve`` as it reflects."""
        row = Row(command="evolve")
        settings = self.settings.changed(agents=("retrosum",), split="train", limit=5, final_summary=True)
        training = start(self.place / "training", settings)
        execute(training, concurrency=3)
        self.speaker.clear()
        words = ["--workers", "1", "--concurrency", "3", "--bank"]

        def evolved(name: str) -> list[str]:
            shutil.copytree(training.path, self.place / name / "training")
            return [
                "memory",
                "evolve",
                "--resume",
                str(self.place / name / "training"),
                *words,
                str(self.place / name / "bank.sqlite"),
            ]

        assert wardround(evolved("evolve-whole")) == 0
        expected = learnt(self.place / "evolve-whole" / "bank.sqlite")
        undisturbed = self.speaker.asked()
        self.speaker.clear()
        while row.kills < kills:
            name = f"evolve-{row.kills}"
            attempt = evolved(name)
            for _ in range(min(PER_ROUND, kills - row.kills)):
                self.kill(attempt, row)
            assert wardround(attempt) == 0
            found = learnt(self.place / name / "bank.sqlite")
            row.lost += sum((expected - found).values())
            row.different += sum((found - expected).values())
            self.count_asked(row, undisturbed)
            shutil.rmtree(self.place / name)
        return row

    def predict(self, kills: int) -> Row:
        """``wardround train predictors``: rows are on disk one by one."""
        row = Row(command="predict")
        common = [
            "train",
            "predictors",
            "--benchmark",
            str(self.place / "ehrshot"),
            "--store",
            str(self.place / "store"),
        ]
        common += ["--predictor", "count-lr", "--shots", "1", "2", "4", "all", "--replicates", "10"]
        common += ["--resamples", "50", "--out"]
        assert wardround([*common, str(self.place / "predict-whole")]) == 0
        expected = fits_of(self.place / "predict-whole")
        while row.kills < kills:
            folder = self.place / f"predict-{row.kills}"
            for _ in range(min(PER_ROUND, kills - row.kills)):
                self.kill([*common, str(folder)], row)
            assert wardround([*common, str(folder)]) == 0
            compare_counts(row, expected, fits_of(folder))
            shutil.rmtree(folder)
        return row

    def ingest(self, kills: int) -> Row:
        """``wardround ingest``: each round ends as the store an undisturbed ingest makes, and leaves no raw rows."""
        row = Row(command="ingest")
        expected = files_of(self.place / "store")
        while row.kills < kills:
            folder = self.place / f"ingest-{row.kills}"
            words = ["ingest", "mimiciv", str(self.place / "hospital"), "--store", str(folder)]
            for _ in range(min(5, kills - row.kills)):
                self.kill(words, row, span=self.span_seconds / 2)
            assert wardround(words) == 0
            compare_counts(row, expected, files_of(folder))
            assert Store.open(folder).digest == Store.open(self.place / "store").digest
            shutil.rmtree(folder)
        return row

    def build(self, kills: int) -> Row:
        """``wardround bench build``: whole or not there."""
        row = Row(command="bench build")
        expected = files_of(self.place / "bench")
        while row.kills < kills:
            folder = self.place / f"built-{row.kills}"
            words = ["bench", "build", "agentehr", "--store", str(self.place / "store"), "--out", str(folder)]
            words += ["--per-task", "4"]
            for _ in range(min(5, kills - row.kills)):
                if self.kill(words, row, span=self.span_seconds / 2):
                    continue
                compare_counts(row, expected, files_of(folder))
                shutil.rmtree(folder)
            if folder.exists():  # killed between its last step and its end: it must be whole
                compare_counts(row, expected, files_of(folder))
                shutil.rmtree(folder)
            assert wardround(words) == 0
            compare_counts(row, expected, files_of(folder))
            assert not list(self.place.glob(f"{folder.name}.partial-*")), "what killed builds left is removed"
            shutil.rmtree(folder)
        return row

    def memory(self, kills: int) -> Row:
        """``wardround memory build``: experiences and their graph, of several attempts at each training sample."""
        settings = self.settings.changed(agents=("react",), split="train", limit=4, epochs=3)
        training = start(self.place / "attempts", settings)
        execute(training, concurrency=3)
        self.speaker.clear()

        def words(folder: Path) -> list[str]:
            if not folder.exists():
                shutil.copytree(training.path, folder / "training")
            return ["memory", "build", str(folder / "bank.sqlite"), str(folder / "training")]

        return self._whole_or_gone_on("memory build", kills, words, lambda folder: graph_of(folder / "bank.sqlite"))

    def induce(self, kills: int) -> Row:
        """``wardround protocol induce``: stays are counted one by one."""
        stays = self.place / "stays"
        assert wardround(["bench", "build", "trace", "--store", str(self.place / "store"), "--out", str(stays)]) == 0
        common = ["--benchmark", str(stays), "--store", str(self.place / "store"), "--support", "3", "--hits", "2"]

        def words(folder: Path) -> list[str]:
            return ["protocol", "induce", str(folder / "rules.toml"), *common]

        def rules(folder: Path) -> Counter[str]:
            return Counter((folder / "rules.toml").read_text(encoding="utf-8").splitlines())

        return self._whole_or_gone_on("protocol induce", kills, words, rules)

    def tune(self, kills: int) -> Row:
        """``wardround train sft``: updates go on from the last checkpoint to the same weights."""
        tiny_model(self.place / "tiny")
        common = ["train", "sft", "--rows", str(self.place / "tiny" / "rows.jsonl"), "--base", str(self.place / "tiny")]
        for setting in (
            "epochs=30",
            "batch=2",
            "rows_at_once=2",
            "save_steps=5",
            "precision=float32",
            "warmup_steps=1",
        ):
            common += ["--set", f"sft.{setting}"]

        def words(folder: Path) -> list[str]:
            return [*common, "--out", str(folder), *["--resume"] * (folder / "begun.json").is_file()]

        def weights(folder: Path) -> Counter[str]:
            told = json.loads((folder / "training.json").read_text(encoding="utf-8"))["done"]
            return files_of(folder / "model") + Counter(map(str, told["losses"]))

        return self._whole_or_gone_on("train sft", kills, words, weights, span=6 * self.span_seconds)

    def _whole_or_gone_on(
        self,
        command: str,
        kills: int,
        words: Callable[[Path], list[str]],
        found: Callable[[Path], Counter[str]],
        *,
        span: float | None = None,
    ) -> Row:
        """Kill a command again and again in one folder, until it ends; what it leaves is what an undisturbed one does.

        ``words``: the command for a folder; ``found``: what the folder holds.
        """
        row, name = Row(command=command), command.replace(" ", "-")
        assert wardround(words(self.place / f"{name}-whole")) == 0
        expected, undisturbed = found(self.place / f"{name}-whole"), self.speaker.asked()
        self.speaker.clear()
        while row.kills < kills:
            folder, going = self.place / f"{name}-{row.kills}", True
            for _ in range(min(PER_ROUND, kills - row.kills)):
                going = going and self.kill(words(folder), row, span=span)
            if going:
                assert wardround(words(folder)) == 0
            compare_counts(row, expected, found(folder))
            self.count_asked(row, undisturbed)
            shutil.rmtree(folder)
        return row

    @property
    def settings(self) -> RunSettings:
        """What the runs have in common."""
        return RunSettings.of(
            benchmark=str(self.place / "bench"),
            store=str(self.place / "store"),
            tasks=("diagnoses", "transfers"),
            models=("openai/test-model",),
            base_url=self.url,
        )


def scores_of(folder: RunFolder) -> dict[str, Any]:
    """Scores by episode, without what depends on the clock."""
    return {
        score.episode: replace(score, use=replace(score.use, model_seconds=0.0, tool_seconds=0.0))
        for score in score_run(folder)
    }


def learnt(path: Path) -> Counter[tuple[str, str, str, str]]:
    """What a bank holds."""
    with Bank.open(path, writable=False) as bank:
        return Counter((one.kind, one.title, one.tool, one.provenance.sample) for one in bank.experiences())


def graph_of(path: Path) -> Counter[str]:
    """What a bank holds, with its graph. Experiences go by their titles: their ids say when they were drawn."""
    with Bank.open(path, writable=False) as bank:
        titles = {one.id: one.title for one in bank.experiences()}
        edges = (
            (titles[one.source], titles[one.target], one.relation, one.weight) for one in bank.graph().every_edge()
        )
        return Counter(["|".join(one) for one in learnt(path).elements()] + [str(edge) for edge in edges])


def tiny_model(folder: Path) -> None:
    """A random model of two small layers, with a tokenizer learnt from the rows that lie beside it."""
    from test_training_model import ROWS, make_base  # its packages are an extra

    make_base(folder)
    lines = (json.dumps(row.to_json()) + "\n" for row in ROWS)
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")


def fits_of(folder: Path) -> Counter[str]:
    """Rows of predictors without their times."""
    lines = (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(json.dumps({**json.loads(line), "seconds": 0}, sort_keys=True) for line in lines)


def files_of(folder: Path) -> Counter[str]:
    """Names and hashes of a folder's files; a manifest's times left out."""
    return Counter(f"{path.relative_to(folder)} {_hash(path)}" for path in folder.rglob("*") if path.is_file())


def _hash(path: Path) -> str:
    if path.name != "manifest.json":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    body = json.loads(path.read_text(encoding="utf-8"))
    return str(body.get("digest") or body.get("samples_sha256"))


def compare_counts(row: Row, expected: Counter[str], found: Counter[str]) -> None:
    """Count what is missing and what should not be there."""
    row.lost += sum((expected - found).values())
    row.different += sum((found - expected).values())
    row.examples += [one[:80] for one in (found - expected)][:2]


def show(rows: Iterable[Row]) -> str:
    """The table."""
    lines = ["| command | kills | at work | lost | different | asked again | of these answered > 1 s before the kill |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        asked = (row.asked_again, row.without_need) if row.command in ASKING else ("–", "–")
        cells = (row.command, row.kills, row.at_work, row.lost, row.different, *asked)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Prepare a small hospital, kill, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(KILLS), choices=list(KILLS))
    parser.add_argument("--kills", type=int, help="of each command; by default 200 of run, 20 or 50 of the others")
    parser.add_argument("--span", type=float, default=2.5, help="seconds within which a kill comes")
    parser.add_argument("--seed", type=int, default=8)
    options = parser.parse_args()
    speaker, rows = Speaker(), []
    with tempfile.TemporaryDirectory() as folder, FakeServer(speaker) as server, Forks() as children:
        place = Path(folder)
        synthesize(place / "hospital", patients=60, seed=3)
        assert wardround(["ingest", "mimiciv", str(place / "hospital"), "--store", str(place / "store")]) == 0
        for name, more in (("bench", ["agentehr", "--per-task", "4"]), ("ehrshot", EHRSHOT)):
            if name == "bench" or "predict" in options.only:
                words = ["bench", "build", *more, "--store", str(place / "store"), "--out", str(place / name)]
                assert wardround(words) == 0
        words = [
            "memory",
            "evolve",
            "--benchmark",
            str(place / "bench"),
            "--store",
            str(place / "store"),
            "--limit",
            "2",
        ]
        words += ["--agent", "react", "--workers", "1", "--out", str(place / "taught")]
        assert wardround([*words, "--bank", str(place / "bank.sqlite")]) == 0
        moments = random.Random(options.seed)
        campaign = Campaign(
            place=place, children=children, speaker=speaker, url=server.url, moments=moments, span_seconds=options.span
        )
        commands: dict[str, Callable[[int], Row]] = {
            "run": campaign.run,
            "evolve": campaign.evolve,
            "grid": campaign.grid,
            "predict": campaign.predict,
            "ingest": campaign.ingest,
            "bench build": campaign.build,
            "memory build": campaign.memory,
            "protocol induce": campaign.induce,
            "train sft": campaign.tune,
        }
        for name in options.only:
            if name == "train sft" and find_spec("trl") is None:
                print("train sft: needs the extra [train]", file=sys.stderr)
                continue
            started = time.monotonic()
            rows.append(commands[name](options.kills or KILLS[name]))
            print(
                f"{show(rows[-1:])}\n{time.monotonic() - started:.0f} s {rows[-1].examples[:4]}",
                file=sys.stderr,
                flush=True,
            )
    print(show(rows))
    return int(any(row.lost or row.different or row.without_need for row in rows))


if __name__ == "__main__":
    sys.exit(main())
