"""The methods, a file each under its paper's own word: compositions over the loop, listed by their ``METHODS``."""

from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import get_args

from wardround.agents.catalogue import ADDITIONS, AGENTS, Paper

_PAPERS = (*get_args(Paper), None)
_MODULES = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
for _method in sorted(chain(*(module.METHODS for module in _MODULES)), key=lambda one: _PAPERS.index(one.paper)):
    AGENTS.add(_method.name, _method)
for _name, _addition in chain(*(getattr(module, "ADDITIONS", {}).items() for module in _MODULES)):
    ADDITIONS.add(_name, _addition)
