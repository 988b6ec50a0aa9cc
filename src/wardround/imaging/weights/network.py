"""A graph that is run: onnxruntime, on one thread unless said, opened when first used and shared between threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.core import UserError
from wardround.imaging.libraries import needed

Numbers = npt.NDArray[np.float32]
_FAR = 500.0


def sigmoid(values: Any) -> npt.NDArray[np.float64]:
    """Return numbers as shares of one; those far out stay inside what floats can hold."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.asarray(values, np.float64), -_FAR, _FAR))))


class NeuralNetwork:
    """One graph of a picture (1, channels, size, size) to named arrays."""

    def __init__(self, graph: Path, *, threads: int = 1) -> None:
        self._graph = graph
        self._threads = threads
        self._session: Any = None
        self._opening = threading.Lock()

    @property
    def size(self) -> int:
        """The side of the pictures it takes, in pixels."""
        return int(self._opened().get_inputs()[0].shape[-1])

    @property
    def channels(self) -> int:
        """How many colours it takes."""
        return int(self._opened().get_inputs()[0].shape[1])

    def run(self, picture: Numbers) -> Mapping[str, Numbers]:
        """Return what it computes, by the names of its outputs."""
        session = self._opened()
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, {session.get_inputs()[0].name: picture}), strict=True))

    def _opened(self) -> Any:
        with self._opening:
            if self._session is None:
                self._session = self._open()
            return self._session

    def _open(self) -> Any:
        runtime = needed("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        try:
            session = runtime.InferenceSession(str(self._graph), options, providers=["CPUExecutionProvider"])
            given = session.get_inputs()
            fits = len(given) == 1 and len(given[0].shape) == 4 and isinstance(given[0].shape[-1], int)
        except Exception as error:  # onnxruntime's errors have no common kind
            raise UserError(f"{self._graph}: not a graph that can be run ({type(error).__name__})") from error
        if not fits:
            raise UserError(f"{self._graph}: expected one input of shape 1 x channels x size x size")
        return session
