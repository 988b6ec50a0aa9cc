"""Our bank as a memory of the benchmark LongMemEval-V2 (Wu et al., 2026): what an agent did elsewhere goes in, state by
state, and each question gets the texts that are nearest by words and by vector.

In a clone of the benchmark, in its own environment with wardround installed, with its data as its README says:

    echo '{"memory_type": "wardround", "memory_params": {"texts": 5}}' > wardround.json
    python WARDROUND/examples/longmemeval_memory.py evaluation/harness.py --memory-config-path wardround.json ...

Every other option is the harness's own. ``memory_params``: ``texts`` of each question (5), ``tokens`` of each (600),
``memory``: how the bank is read, one of the peers that need no model to write (naive-rag).
"""

from __future__ import annotations

import runpy
import shutil
import sys
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(sys.argv[1]).resolve().parents[1]))

from memory_modules.memory import Memory, register_memory

from wardround.memory import Bank, Experience, PinnedBank, Provenance, RecallQuestion, Subject
from wardround.memory.keys import text_key
from wardround.memory.peer import PEERS, PeerCase, PeerSettings, beginning
from wardround.tools.retrieval import LexicalEncoder

ENCODER = LexicalEncoder()
SOURCE, FILE = "longmemeval-v2", "bank.sqlite"
NOBODY = Subject(source=SOURCE, subject_id=0)
"""Who asks. A bank never serves what it learnt from the one who asks; trajectories are numbered from 1."""


@register_memory
class WardroundMemory(Memory):
    memory_type = "wardround"

    def __init__(self, memory_params: dict[str, object]) -> None:
        super().__init__(memory_params)
        folder = mkdtemp(prefix="wardround-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._bank = Path(folder) / FILE
        self._trajectories = 0

    def _param(self, name: str, default: Any) -> Any:
        return self.memory_params.get(name, default)

    def insert(self, trajectory: dict[str, Any]) -> None:
        self._trajectories += 1
        peer, tokens = self._param("memory", "naive-rag"), self._param("tokens", 600)
        with Bank.open(self._bank) as bank, bank.batch():
            subject = bank.subject_hash(Subject(source=SOURCE, subject_id=self._trajectories))
            origin = Provenance(sample=str(trajectory["id"]), subject=subject, split="train")
            goal = str(trajectory.get("goal") or "no goal")
            for number, state in enumerate(trajectory["states"], start=1):
                shown = state.get("accessibility_tree") or state.get("text") or ""
                lines = [f"{name}: {state[name]}" for name in ("url", "thought", "action") if state.get(name)]
                note = Experience(
                    kind="note",
                    tool=peer,
                    title=beginning(goal, 60),
                    description=f"step {number}, outcome {trajectory.get('outcome') or 'not known'}",
                    content=beginning("\n".join([*lines, shown]), tokens) or goal,
                    task="trajectory",
                    provenance=origin,
                )
                bank.add([note], key=text_key(ENCODER, f"{note.title}\n{note.content}"))

    def query(self, query: str, query_image: str | None = None) -> list[dict[str, str]]:
        if not self._bank.exists():
            return []
        peer, texts = self._param("memory", "naive-rag"), self._param("texts", 5)
        question = RecallQuestion(text=query, key=text_key(ENCODER, query))
        with PinnedBank.open(self._bank) as bank:
            case = PeerCase(peer=peer, bank=bank, subject=NOBODY, question=question, settings=PeerSettings(k=texts))
            notes = [found.note for found in PEERS.get(peer).recall(case)][:texts]
        return [{"type": "text", "value": f"{note.title}\n{note.description}\n{note.content}"} for note in notes]

    def _save_backend(self, output_dir: Path) -> None:
        shutil.copyfile(self._bank, output_dir / FILE)

    def _load_backend(self, input_dir: Path) -> None:
        shutil.copyfile(input_dir / FILE, self._bank)


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
