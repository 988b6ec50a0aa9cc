"""Parse source specs from TOML, strictly: a misspelt key or column is an error that names the allowed ones."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from wardround.core import (
    SENSITIVITIES,
    Registry,
    Sensitivity,
    UserError,
    content_hash,
    read_toml,
    refuse_unknown,
    strict,
    strictest,
)
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import DictionaryKeys, DictionarySpec, SourceKeys, SourceSpec, TableSpec
from wardround.records.specs.spec_body import (
    SourceBody,
    SpecBody,
    check_column_names,
    read_roles,
    spelt,
    table_spec,
    values_of,
)
from wardround.records.specs.spec_check import check_source, check_table, open_questions, refuse_open_questions

_SPECS = Path(__file__).parents[1] / "sources"


def list_sources() -> tuple[str, ...]:
    """Return the names of the sources that come with wardround."""
    return tuple(sorted({file.parent.name for file in _SPECS.glob("*/*.toml")}))


SOURCES: Registry[Path] = Registry("sources", one="source", of=Path, title=lambda path: f"a spec in {path.name}")
"""The spec of every source by name: a TOML file or a folder of them; ours and those of plug-ins."""
for _name in list_sources():
    SOURCES.add(_name, _SPECS / _name)


def load_source_spec(name_or_path: str | Path) -> SourceSpec:
    """Load a source by name, or from a folder of TOML files or one file. UserError says which file and key is wrong."""
    return _read(_texts(name_or_path))


def _texts(name_or_path: str | Path) -> tuple[_SpecFile, ...]:
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in SOURCES:
        path = SOURCES.get(name_or_path)
    files = [path] if path.is_file() else sorted(path.glob("*.toml")) if path.is_dir() else []
    if not files:
        known = ", ".join(SOURCES.names)
        raise UserError(f"no source named {str(name_or_path)!r} and no spec file there; sources: {known}")
    return tuple(_SpecFile(path=file, name=file.name, text=file.read_text(encoding="utf-8")) for file in files)


def spec_problems(name_or_path: str | Path) -> list[str]:
    """Return the problems of a spec, a line each: every open question of a draft; else the first problem of each table;
    else that of the whole spec. Empty: the spec can be used."""
    found: list[str] = []
    modules: list[_Module] = []
    for file in _texts(name_or_path):
        with _noted(found):
            body = _toml(file)
            questions = [f"{file.name}: {place}: {text}" for place, text in open_questions(body)]
            found += questions
            modules += [] if questions else [_Module(file)]
    if not found:
        found += _table_problems(modules)
    if not found:
        with _noted(found):
            load_source_spec(name_or_path)
    return found


def _table_problems(modules: Sequence[_Module]) -> list[str]:
    found: list[str] = []
    dictionaries: dict[str, DictionarySpec] = {}
    tables: dict[str, TableSpec] = {}
    with _noted(found):
        dictionaries |= {each.name: each for module in modules for each in module.dictionaries()}
    for owner, name in ((module, name) for module in modules for name in module.tables):
        with _noted(found):
            tables[name] = owner.table(name, dictionaries)
    for table in tables.values() if not found else ():
        with _noted(found):
            check_table(table, tables, dictionaries)
    return found


@contextlib.contextmanager
def _noted(found: list[str]) -> Iterator[None]:
    """Collect an error inside instead of stopping there."""
    try:
        yield
    except UserError as error:
        found.append(str(error))


def _toml(file: _SpecFile) -> dict[str, Any]:
    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        role = re.match(r"\s*\[+roles\.(\w+)\]", file.text.splitlines()[int(at[1]) - 1]) if at else None
        hint = f"; where several tables play the role, begin each of them with [[roles.{role[1]}]]" if role else ""
        raise UserError(f"{file.path}: not valid TOML: {error}{hint}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpecFile:
    """One file of a spec; its folder has no meaning."""

    path: Path = field(compare=False)
    name: str
    text: str


@lru_cache(maxsize=16)
def _read(files: tuple[_SpecFile, ...]) -> SourceSpec:
    """Return the spec in some files, parsed once: every store has its own copy and is opened often."""
    modules = [_Module(file) for file in files]
    names = {module.name for module in modules}
    if len(names) > 1:
        raise UserError(f"spec files of one source must agree on source.name, found {', '.join(sorted(names))}")
    tables: dict[str, TableSpec] = {}
    dictionaries: dict[str, DictionarySpec] = {}
    for module in modules:
        for dictionary in module.dictionaries():
            _add(dictionaries, dictionary.name, dictionary, module.file)
    for module in modules:
        for name in module.tables:
            _add(tables, name, module.table(name, dictionaries), module.file)
    if not tables:
        raise UserError(f"no [tables.*] in {', '.join(str(file.path) for file in files)}")
    order = check_source(tables, dictionaries)
    for text in (module.source.person for module in modules if module.source.person is not None):
        table, _, column = text.partition(".")
        if table not in tables or tables[table].columns.get(column) != "text":
            raise UserError(
                f"{modules[0].file.name}: source.person is {text!r}, expected a table and a text column of it"
            )
    spec = SourceSpec(
        **_source_keys([module.source for module in modules]) | {"sensitivity": _sensitivity(modules)},
        title="; ".join(dict.fromkeys(module.title for module in modules)),
        sha256=content_hash([[module.file.name, module.text] for module in modules]),
        tables=tables,
        dictionaries=dictionaries,
        order=order,
        files={module.file.name: module.text for module in modules},
        modules=tuple(dict.fromkeys(module.module for module in modules)),
        roles=read_roles({module.file.name: module.roles for module in modules}, tables),
    )
    zones = sorted({module.source.files.time_zone for module in modules if module.source.files} - {""})
    if len(zones) > 1:
        raise UserError(f"spec files of one source must agree on source.files.time_zone, found {', '.join(zones)}")
    return spec.in_zone(next(iter(zones), None))


def _sensitivity(modules: Sequence[_Module]) -> Sensitivity:
    """Return the strictest value of some files. UserError: it is less strict than that of our source of this name."""
    found = strictest(module.source.sensitivity for module in modules)
    name = modules[0].name
    if found == SENSITIVITIES[-1] or name not in list_sources():
        return found
    ours = sorted((_SPECS / name).glob("*.toml"))
    least = strictest(_source_body(read_toml(file), file.name).sensitivity for file in ours)
    if strictest((found, least)) != found:
        raise UserError(
            f"{modules[0].file}: records of source {name!r} are {least}, and no edited spec makes them {found!r}; "
            f"give a spec of other records another source.name"
        )
    return found


def _source_body(body: Mapping[str, Any], file: str) -> SourceBody:
    source = body.get("source", {})
    if isinstance(source, Mapping):
        strict(FileFormat, source.get("files", {}), f"{file}: source.files")  # its own errors name its own place
    return strict(SourceBody, source, f"{file}: source")


def _source_keys(bodies: Sequence[SourceBody]) -> dict[str, Any]:
    """Return each key of the source over its files: lists and tables are joined, else the first value counts."""
    found: dict[str, Any] = {}
    for key in (each.name for each in fields(SourceKeys)):
        values = [getattr(body, key) for body in bodies]
        if isinstance(values[0], tuple):
            found[key] = tuple(dict.fromkeys(part for value in values for part in value))
        elif isinstance(values[0], Mapping):
            found[key] = {name: text for value in values for name, text in value.items()}
        else:
            found[key] = next((value for value in values if value), None)
    return found


def _add(target: dict[str, Any], name: str, value: object, file: Path) -> None:
    if name in target:
        raise UserError(f"{file}: {name!r} is declared twice")
    target[name] = value


class _Module:
    """One parsed spec file."""

    def __init__(self, spec_file: _SpecFile) -> None:
        self.file = file = spec_file.path
        self.text = spec_file.text
        body = _toml(spec_file)
        refuse_open_questions(body, file.name)
        refuse_unknown(body, (each.name for each in fields(SpecBody)), file.name)
        body = spelt(body)
        self.source = source = _source_body(body, file.name)
        self.name = source.name
        self.module = source.module or file.stem
        self.title = source.title or source.name
        self._files = body["source"].get("files") or _shipped_files(file.name, self.name)
        lists = {f"{{{name}}}": ", ".join(f"'{value}'" for value in values) for name, values in source.lists.items()}
        rules = _named_rules(source.rules, lists, f"{file.name}: source.rules")
        self.tables: Mapping[str, Any] = _filled_in(_part(body, "tables", file.name), {**rules, **lists})
        self._dictionaries = _part(body, "dictionaries", file.name)
        self.roles: Mapping[str, Any] = _with_lists(_part(body, "roles", file.name), source.lists)

    def file_format(self, place: str, own: Mapping[str, Any]) -> FileFormat:
        """Return how a table's files are written: as the source's, unless the table declares otherwise."""
        if "time_zone" in own.get("files", {}):
            raise UserError(f"{place}.files: a hospital has one clock: say time_zone once, under [source.files]")
        return replace(strict(FileFormat, {**self._files, **own.get("files", {})}, f"{place}.files"), time_zone="")

    def dictionaries(self) -> Iterable[DictionarySpec]:
        for name, own in self._dictionaries.items():
            place = f"{self.file.name}: dictionaries.{name}"
            body = strict(DictionaryKeys, own, place)
            check_column_names(body.columns, place)
            yield DictionarySpec(**values_of(body, DictionaryKeys) | {"files": self.file_format(place, own)}, name=name)

    def table(self, name: str, dictionaries: Mapping[str, DictionarySpec]) -> TableSpec:
        own = self.tables[name]
        place = f"{self.file.name}: tables.{name}"
        files = self.file_format(place, own)
        return table_spec(own, name=name, module=self.module, place=place, files=files, dictionaries=dictionaries)


def _part(body: Mapping[str, Any], name: str, file: str) -> Mapping[str, Any]:
    found = body.get(name, {})
    if not isinstance(found, Mapping):
        raise UserError(f"{file}: {name}: expected tables [{name}.NAME], found {found!r}")
    return found


def _shipped_files(file: str, source: str) -> Mapping[str, Any]:
    """Return how the files of one of our sources are written, for copied specs that do not declare it yet."""
    shipped = _SPECS / source / file
    if source not in list_sources() or not shipped.exists():
        return {}
    found: Mapping[str, Any] = read_toml(shipped)["source"].get("files", {})
    return found


def _named_rules(rules: Mapping[str, str], lists: Mapping[str, str], place: str) -> dict[str, str]:
    """Return named parts of rules; a part may use lists and the parts before it."""
    named: dict[str, str] = {}
    for name, text in rules.items():
        if f"{{{name}}}" in lists:
            raise UserError(f"{place}.{name}: expected a time rule with a name that no list has, found {text!r}")
        named[f"{{{name}}}"] = str(_filled_in(text, {**named, **lists}))
    return named


def _filled_in(body: Any, lists: Mapping[str, str]) -> Any:
    """Return a part of a spec with ``{name}`` replaced by the list or rule of that name."""
    if isinstance(body, dict):
        return {key: _filled_in(value, lists) for key, value in body.items()}
    if isinstance(body, str):
        for name, values in lists.items():
            body = body.replace(name, values)
    return body


def _with_lists(body: Any, lists: Mapping[str, Sequence[str]]) -> Any:
    """Return a part of a spec with ``"{name}"`` or ``"!{name}"`` in a list replaced by the texts of that list."""
    if isinstance(body, dict):
        return {key: _with_lists(value, lists) for key, value in body.items()}
    if not isinstance(body, list):
        return body
    named = {
        f"{sign}{{{name}}}": [f"{sign}{text}" for text in texts] for name, texts in lists.items() for sign in ("", "!")
    }
    parts = (named.get(part, [part]) if isinstance(part, str) else [_with_lists(part, lists)] for part in body)
    return [each for part in parts for each in part]
