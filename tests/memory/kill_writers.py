"""Three processes write into one bank; one of them is killed at a random moment, again and again. What was acknowledged
must be there, once. Run as a script: a bank's path, the number of kills, a seed; prints what went wrong as JSON."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from memory_doubles import key, lesson

from wardround.memory import Bank, Edge
from wardround.memory.words import terms_of

WRITERS = 3
STEP = 1e-6


def write(path: Path, name: str, acknowledged: Path, shared: str) -> None:
    """Add, link, rate, revise, count up: one line for every operation that returned."""
    with Bank.open(path) as bank, acknowledged.open("a", buffering=1) as said:
        last = shared
        for number in range(10**6):
            made = lesson(bank, f"lesson {name} {number}", number, kind="indication", content="fluids early " * 20)
            bank.add([made], key=key(1, number % 97, 2))
            said.write(f"add {made.id}\n")
            bank.set_graph(edges=[Edge(source=made.id, target=last, weight=0.5)], reason="linked")
            said.write(f"edge {made.id} {last}\n")
            with bank.batch():
                value = bank.graph().quality(shared) or 0.0
                bank.set_graph(qualities={shared: value + STEP}, reason="counted")
            said.write("count\n")
            bank.add_feedback(shared, "used", value=1.0, episode=f"{name}-{number}")
            said.write(f"feedback {name}-{number}\n")
            bank.revise(made.id, content=f"revised {name} {number}", reason="r")
            said.write(f"revise {made.id} {name} {number}\n")
            last = made.id


def checked(path: Path, said: list[list[str]], shared: str, kills: int) -> list[str]:
    """What of the acknowledged is not in the bank, and what in the bank is not sound."""
    wrong = []
    with Bank.open(path) as bank:
        wrong += [f"{count} {what}" for what, count in bank.damage().items() if count]
        texts = {one.id: one.content for one in bank.experiences()}
        graph = bank.graph()
        wrong += [f"lost {name}" for kind, *rest in said for name in rest[:1] if kind == "add" and name not in texts]
        wrong += [
            f"lost edge of {rest[0]}"
            for kind, *rest in said
            if kind == "edge" and rest[1] not in {edge.target for edge in graph.edges(rest[0])}
        ]
        wrong += [
            f"lost revision of {rest[0]}"
            for kind, *rest in said
            if kind == "revise" and texts.get(rest[0]) != f"revised {rest[1]} {rest[2]}"
        ]
        counted = round((graph.quality(shared) or 0.0) / STEP)
        acknowledged = sum(kind == "count" for kind, *_ in said)
        if not acknowledged <= counted <= acknowledged + WRITERS * kills:
            wrong.append(f"{counted} counted, {acknowledged} acknowledged")
        if len(bank.history(shared)) != 1 or len(bank.quality_history(shared)) != counted:
            wrong.append("updates were lost")
        episodes = Counter(one.episode for one in bank.feedback(shared))
        wrong += [f"feedback of {rest[0]}" for kind, *rest in said if kind == "feedback" and episodes[rest[0]] != 1]
        words: Counter[str] = Counter()
        for one in bank.experiences():
            words.update(set(terms_of("\n".join((one.title, one.description, one.content, one.condition)))))
        if dict(bank.file.rows("SELECT term, documents FROM term")) != words:
            wrong.append("words counted")
    return wrong


def main() -> None:
    path, kills, source = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    with Bank.open(path) as bank:
        first = lesson(bank, "shared", 0, kind="indication")
        bank.add([first])
    logs = [path.parent / f"said-{number}" for number in range(WRITERS)]
    wrong: list[str] = []
    for trial in range(kills):
        started = []
        for number, log in enumerate(logs):
            child = os.fork()
            if not child:
                write(path, f"{trial}w{number}", log, first.id)
            started.append(child)
        time.sleep(source.uniform(0.02, 0.25))
        for child in source.sample(started, WRITERS):
            os.kill(child, signal.SIGKILL)
            time.sleep(source.uniform(0, 0.03))
        for child in started:
            os.waitpid(child, 0)
        if trial % 10 == 9 or trial == kills - 1:
            lines = [line.split() for log in logs for line in log.read_text().rpartition("\n")[0].splitlines()]
            wrong += checked(path, [line for line in lines if line], first.id, trial + 1)
    acknowledged = sum(len(log.read_text().splitlines()) for log in logs)
    sys.stdout.write(json.dumps({"wrong": wrong[:20], "acknowledged": acknowledged}))


if __name__ == "__main__":
    main()
