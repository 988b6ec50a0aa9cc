"""Reading source specs from TOML: strict, so that a misspelt key or column is an error that names what is allowed."""

from __future__ import annotations

import contextlib
import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from wardround.core import SENSITIVITIES, Registry, Sensitivity, UserError, content_hash, read_toml, strict, strictest
from wardround.records.rules.language import Rule
from wardround.records.rules.parser import parse_rule
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.open_questions import open_questions, refuse_open_questions
from wardround.records.specs.role_file import read_roles
from wardround.records.specs.roles import Roles
from wardround.records.specs.spec import (
    COLUMN_TYPES,
    GROUP_SYSTEMS,
    LAG_SETTINGS,
    AgeColumns,
    ColumnType,
    Derivation,
    DictionaryJoin,
    DictionarySpec,
    GroupJoin,
    PendingRows,
    PublishedClock,
    SourceSpec,
    TableSpec,
)
from wardround.records.specs.spec_check import check_source, check_table

_SPECS = Path(__file__).parents[1] / "sources"


def list_sources() -> tuple[str, ...]:
    """Names of the sources that come with wardround."""
    return tuple(sorted({file.parent.name for file in _SPECS.glob("*/*.toml")}))


SOURCES: Registry[Path] = Registry("sources", one="source", of=Path, title=lambda path: f"a spec in {path.name}")
"""The spec of every source by name: a TOML file, or a folder of them; ours, and those of plug-ins."""
for _name in list_sources():
    SOURCES.add(_name, _SPECS / _name)


def load_source_spec(name_or_path: str | Path) -> SourceSpec:
    """Load a source by name, or from a folder of TOML files or one file. UserError says which file and key is wrong."""
    return _read(_texts(name_or_path))


def _texts(name_or_path: str | Path) -> tuple[_SpecFile, ...]:
    files = _spec_files(name_or_path)
    return tuple(_SpecFile(path=file, name=file.name, text=file.read_text(encoding="utf-8")) for file in files)


def spec_problems(name_or_path: str | Path) -> list[str]:
    """Return what is wrong with a spec, a line each: every open question of a draft; else the first thing of every
    table; else of the whole. Empty: it can be used."""
    found: list[str] = []
    modules: list[_Module] = []
    for file in _texts(name_or_path):
        with _noted(found):
            body = _toml(file)
            asked = [f"{file.name}: {place}: {text}" for place, text in open_questions(body)]
            found += asked
            modules += [] if asked else [_Module(file)]
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
    for owner, name in ((module, name) for module in modules for name in module.table_names):
        with _noted(found):
            tables[name] = owner.table(name, dictionaries)
    for table in tables.values() if not found else ():
        with _noted(found):
            check_table(table, tables, dictionaries)
    return found


@contextlib.contextmanager
def _noted(found: list[str]) -> Iterator[None]:
    """Note what goes wrong inside instead of stopping there."""
    try:
        yield
    except UserError as error:
        found.append(str(error))


def _toml(file: _SpecFile) -> dict[str, Any]:
    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file.path}: not valid TOML: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpecFile:
    """One file of a spec; where it lies decides nothing."""

    path: Path = field(compare=False)
    name: str
    text: str


@lru_cache(maxsize=16)
def _read(files: tuple[_SpecFile, ...]) -> SourceSpec:
    """Return the spec that the files hold: read once, for every store carries its own copy and is opened often."""
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
        for name in module.table_names:
            _add(tables, name, module.table(name, dictionaries), module.file)
    if not tables:
        raise UserError(f"no [tables.*] in {', '.join(str(file.path) for file in files)}")
    order = check_source(tables, dictionaries)
    return SourceSpec(
        name=modules[0].name,
        title="; ".join(dict.fromkeys(module.title for module in modules)),
        sha256=content_hash([[module.file.name, module.text] for module in modules]),
        tables=tables,
        dictionaries=dictionaries,
        order=order,
        files={module.file.name: module.text for module in modules},
        modules=tuple(dict.fromkeys(module.module for module in modules)),
        versions=tuple(dict.fromkeys(version for module in modules for version in module.versions)),
        sensitivity=_sensitivity(modules),
        flatten=next((module.flatten for module in modules if module.flatten), None),
        ignored=tuple(dict.fromkeys(name for module in modules for name in module.ignored)),
        assumed={setting: text for module in modules for setting, text in module.assumed.items()},
        splits=next((module.splits for module in modules if module.splits is not None), None),
        person=_person(modules, tables),
        roles=_roles(modules, tables),
    )


def _roles(modules: Sequence[_Module], tables: Mapping[str, TableSpec]) -> Roles:
    """Return the roles of some files. A store made before there were any has those of its source as it is shipped."""
    name = modules[0].name
    if not any(module.roles for module in modules) and name in list_sources():
        return load_source_spec(name).roles
    return read_roles({module.file.name: module.roles for module in modules}, tables)


def _spec_files(name_or_path: str | Path) -> list[Path]:
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in SOURCES:
        path = SOURCES.get(name_or_path)
    if path.is_file():
        return [path]
    files = sorted(path.glob("*.toml")) if path.is_dir() else []
    if not files:
        known = ", ".join(SOURCES.names)
        raise UserError(f"no source named {str(name_or_path)!r} and no spec file there; sources: {known}")
    return files


def _sensitivity(modules: Sequence[_Module]) -> Sensitivity:
    """Return the strictest word of some files. UserError: it is freer than that of our own source of this name."""
    found = strictest(module.sensitivity for module in modules)
    name = modules[0].name
    if found == SENSITIVITIES[-1] or name not in list_sources():
        return found
    least = strictest(_sensitivity_word(_source_keys(file)) for file in sorted((_SPECS / name).glob("*.toml")))
    if strictest((found, least)) != found:
        raise UserError(
            f"{modules[0].file}: records of source {name!r} are {least}, and no edited spec makes them {found!r}; "
            f"give a spec of other records another source.name"
        )
    return found


def _source_keys(file: Path) -> _Keys:
    return _Keys(tomllib.loads(file.read_text(encoding="utf-8")).get("source", {}), f"{file.name}: source")


def _sensitivity_word(source: _Keys) -> Sensitivity:
    word = source.take("sensitivity", str, "credentialed")
    if word not in SENSITIVITIES:
        raise UserError(f"{source.place}.sensitivity: unknown word {word!r}; known are {', '.join(SENSITIVITIES)}")
    return cast(Sensitivity, word)


def _person(modules: Sequence[_Module], tables: Mapping[str, TableSpec]) -> tuple[str, str] | None:
    """Read ``person = "table.column"``."""
    text = next((module.person for module in modules if module.person is not None), None)
    if text is None:
        return None
    table, _, column = text.partition(".")
    if table not in tables or tables[table].columns.get(column) != "text":
        raise UserError(f"{modules[0].file.name}: source.person is {text!r}, expected a table and a text column of it")
    return table, column


def _add(target: dict[str, Any], name: str, value: object, file: Path) -> None:
    if name in target:
        raise UserError(f"{file}: {name!r} is declared twice")
    target[name] = value


class _Keys:
    """One TOML table being read: every key must be asked for, what is left over is an error."""

    def __init__(self, body: object, place: str) -> None:
        if not isinstance(body, Mapping):
            raise UserError(f"{place}: expected a table, found {body!r}")
        self.left = dict(body)
        self.asked: list[str] = []
        self.place = place

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        self.asked.append(key)
        value = self.left.pop(key, default)
        if value is not default and not isinstance(value, kind):
            raise UserError(f"{self.place}.{key}: expected {kind.__name__}, found {value!r}")
        return value

    def need(self, key: str, kind: type) -> Any:
        value = self.take(key, kind)
        if value is None:
            raise UserError(f"{self.place}: {key!r} is missing")
        return value

    def names(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = self.take(key, list, list(default))
        if not all(isinstance(item, str) for item in value):
            raise UserError(f"{self.place}.{key}: expected a list of names, found {value!r}")
        return tuple(value)

    def rule(self, key: str) -> Rule | None:
        text = self.take(key, str)
        return None if text is None else read_rule(text, f"{self.place}.{key}")

    def close(self) -> None:
        for key in self.left:
            near = difflib.get_close_matches(key, self.asked, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(self.asked))}"
            raise UserError(f"{self.place}: unknown key {key!r}; {hint}")


def read_rule(text: str, place: str) -> Rule:
    """Parse a rule; the error names the place."""
    try:
        return parse_rule(text)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


class _Module:
    """One spec file, read into shapes."""

    def __init__(self, spec_file: _SpecFile) -> None:
        self.file = file = spec_file.path
        self.text = spec_file.text
        body = _toml(spec_file)
        refuse_open_questions(body, file.name)
        root = _Keys(body, file.name)
        source = _Keys(root.need("source", dict), f"{file.name}: source")
        self.name: str = source.need("name", str)
        self.module: str = source.take("module", str, file.stem)
        self.title: str = source.take("title", str, self.name)
        self.versions = source.names("versions")
        self.sensitivity = _sensitivity_word(source)
        self.ignored = source.names("ignored")
        self.flatten: str | None = source.take("flatten", str)
        self.assumed: Mapping[str, str] = _assumed(source)
        self.splits: str | None = source.take("splits", str)
        self.person: str | None = source.take("person", str)
        self._files: Mapping[str, Any] = source.take("files", dict) or _shipped_files(file.name, self.name)
        self.file_format(source.place, {})
        values = source.take("lists", dict, {})
        lists = _as_arguments(values, f"{file.name}: source.lists")
        rules = _named_rules(source.take("rules", dict, {}), lists, f"{file.name}: source.rules")
        source.take("description", str)
        source.close()
        self._tables = _filled_in(root.take("tables", dict, {}), {**rules, **lists})
        self._dictionaries = root.take("dictionaries", dict, {})
        self.roles: Mapping[str, Any] = _with_lists(root.take("roles", dict, {}), values)
        root.close()

    def file_format(self, place: str, own: Mapping[str, Any]) -> FileFormat:
        """Return how a table's files are written: as the source's are, but for what is said of its own."""
        return strict(FileFormat, {**self._files, **own}, f"{place}.files")

    def dictionaries(self) -> Iterable[DictionarySpec]:
        for name, body in self._dictionaries.items():
            keys = _Keys(body, f"{self.file.name}: dictionaries.{name}")
            dictionary = DictionarySpec(
                name=name,
                path=keys.need("path", str),
                columns=_columns(keys),
                key=keys.names("key"),
                description=keys.take("description", str, ""),
                also=keys.names("also"),
                absent=keys.names("absent"),
                files=self.file_format(keys.place, keys.take("files", dict, {})),
            )
            keys.close()
            yield dictionary

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def table(self, name: str, dictionaries: Mapping[str, DictionarySpec]) -> TableSpec:
        keys = _Keys(self._tables[name], f"{self.file.name}: tables.{name}")
        files = self.file_format(keys.place, keys.take("files", dict, {}))
        table = _table(name, self.module, keys, dictionaries)
        keys.close()
        return replace(table, files=files)


def _shipped_files(file: str, source: str) -> Mapping[str, Any]:
    """Return how the files of a source of ours are written, for specs that were copied before they said so."""
    shipped = _SPECS / source / file
    if source not in list_sources() or not shipped.exists():
        return {}
    found: Mapping[str, Any] = read_toml(shipped)["source"].get("files", {})
    return found


def _as_arguments(lists: Mapping[str, object], place: str) -> dict[str, str]:
    """Return named lists of values as they stand in a rule: quoted, with commas between."""
    for name, values in lists.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise UserError(f"{place}.{name}: expected a list of texts, found {values!r}")
    return {f"{{{name}}}": ", ".join(f"'{value}'" for value in cast(list[str], v)) for name, v in lists.items()}


def _named_rules(rules: Mapping[str, object], lists: Mapping[str, str], place: str) -> dict[str, str]:
    """Return named parts of rules; a part may hold lists and the parts before it."""
    named: dict[str, str] = {}
    for name, text in rules.items():
        if not isinstance(text, str) or f"{{{name}}}" in lists:
            raise UserError(f"{place}.{name}: expected a time rule under a name of its own, found {text!r}")
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
    """Return a part of a spec in which a list of texts stands for ``"{name}"``, or ``"!{name}"``, within a list."""
    if isinstance(body, dict):
        return {key: _with_lists(value, lists) for key, value in body.items()}
    if not isinstance(body, list):
        return body
    named = {
        f"{sign}{{{name}}}": [f"{sign}{text}" for text in texts] for name, texts in lists.items() for sign in ("", "!")
    }
    parts = (named.get(part, [part]) if isinstance(part, str) else [_with_lists(part, lists)] for part in body)
    return [each for part in parts for each in part]


def _assumed(source: _Keys) -> dict[str, str]:
    assumed = source.take("assumed", dict, {})
    for setting, text in assumed.items():
        if setting not in LAG_SETTINGS or not isinstance(text, str):
            raise UserError(f"{source.place}.assumed.{setting}: write SETTING = text; settings are {LAG_SETTINGS}")
    return dict(assumed)


def _columns(keys: _Keys) -> dict[str, ColumnType]:
    columns = keys.need("columns", dict)
    for name, kind in columns.items():
        if kind not in COLUMN_TYPES:
            raise UserError(f"{keys.place}.columns.{name}: unknown type {kind!r}; known are {', '.join(COLUMN_TYPES)}")
        if name != name.lower() or name == "row_id" or name.startswith("_"):
            raise UserError(f"{keys.place}.columns.{name}: column names are lower case, not 'row_id', not '_...'")
    return cast(dict[str, ColumnType], dict(columns))


def _table(name: str, module: str, keys: _Keys, dictionaries: Mapping[str, DictionarySpec]) -> TableSpec:
    columns = _columns(keys)
    subject_from = keys.take("subject_from", dict)
    joins = _joins(keys)
    code = keys.take("code", str)
    group = _group(keys, code, columns)
    first_of = _first_of(keys)
    return TableSpec(
        name=name,
        module=module,
        path=keys.need("path", str),
        columns=columns,
        event_time=_need_rule(keys, "event_time"),
        available_at=_need_rule(keys, "available_at"),
        description=keys.take("description", str, ""),
        key=keys.names("key"),
        id_columns=keys.names("id_columns"),
        unique=keys.names("unique"),
        version=keys.take("version", str),
        subject=keys.take("subject", str, "subject_id" if subject_from is None else None),
        subject_from=_subject_from(subject_from, keys.place),
        encounter=keys.take("encounter", str),
        code=code,
        code_system=keys.take("code_system", str),
        code_system_column=keys.take("code_system_column", str),
        kind=keys.take("kind", str),
        classes=keys.names("classes"),
        label=keys.take("label", str),
        death=keys.take("death", str),
        value=keys.take("value", str),
        text=keys.take("text", str),
        unit=keys.take("unit", str),
        withhold=keys.names("withhold"),
        planned=keys.names("planned"),
        default_columns=keys.names("default_columns"),
        describe=keys.take("describe", dict, {}),
        late=_late(keys, joins, group, first_of),
        dictionaries=joins,
        group=group,
        published=_published(keys),
        pending=_pending(keys),
        derive=_derive(keys),
        age=_age(keys),
        required=keys.names("required"),
        first_of=first_of,
        joined=_joined(joins, group, first_of, dictionaries),
    )


def _need_rule(keys: _Keys, key: str) -> Rule:
    rule = keys.rule(key)
    if rule is None:
        raise UserError(f"{keys.place}: {key!r} is missing; write a time rule, 'always' or 'never'")
    return rule


def _subject_from(body: object, place: str) -> tuple[str, str] | None:
    if body is None:
        return None
    keys = _Keys(body, f"{place}.subject_from")
    found = keys.need("key", str), keys.need("table", str)
    keys.close()
    return found


def _first_of(keys: _Keys) -> dict[str, tuple[str, ...]]:
    parts = _Keys(keys.take("first", dict, {}), f"{keys.place}.first")
    return {name: parts.names(name) for name in tuple(parts.left)}


def _late(
    keys: _Keys, joins: tuple[DictionaryJoin, ...], group: GroupJoin | None, first_of: Mapping[str, tuple[str, ...]]
) -> dict[str, Rule]:
    """Read the late columns; what is joined through a late column, or made of one, is late with it."""
    late: dict[str, Rule] = {}
    for names, text in keys.take("late", dict, {}).items():
        if not isinstance(text, str):
            raise UserError(f'{keys.place}.late: write one line per column, "column" = "rule"; found {text!r}')
        rule = read_rule(text, f"{keys.place}.late.{names}")
        late.update({name.strip(): rule for name in names.split(",")})
    for join in joins:
        for column in join.on:
            if column in late:
                late.update(dict.fromkeys(join.add, late[column]))
    if group is not None:
        for part in (group.code, group.version, group.ndc):
            if part in late:
                late[group.name] = late[part]
    for name, made_of in first_of.items():
        rules = {late[part] for part in made_of if part in late}
        if len(rules) > 1:
            raise UserError(f"{keys.place}.first.{name}: its columns are late by different rules")
        late.update(dict.fromkeys([name], *rules) if rules else {})
    return late


def _joins(keys: _Keys) -> tuple[DictionaryJoin, ...]:
    body = keys.left.pop("dictionary", None)
    keys.asked.append("dictionary")
    joins = []
    for item in [] if body is None else body if isinstance(body, list) else [body]:
        join = _Keys(item, f"{keys.place}.dictionary")
        on, add = join.names("on"), join.need("add", dict)
        joins.append(DictionaryJoin(table=join.need("table", str), on=on, add=dict(add)))
        join.close()
    return tuple(joins)


def _group(keys: _Keys, code: str | None, columns: Mapping[str, ColumnType]) -> GroupJoin | None:
    body = keys.take("group", dict)
    if body is None:
        return None
    group = _Keys(body, f"{keys.place}.group")
    system = group.need("system", str)
    if system not in GROUP_SYSTEMS:
        raise UserError(f"{group.place}.system: unknown {system!r}; known are {', '.join(GROUP_SYSTEMS)}")
    is_ccs = system != "atc"
    guess = "icd_version" if is_ccs and "icd_version" in columns else None
    join = GroupJoin(
        system=system,
        code=group.take("code", str, code) or group.need("code", str),
        name=group.take("name", str, GROUP_SYSTEMS[system]),
        version=group.take("version", str, guess),
        fixed_version=group.take("fixed_version", int),
        ndc=group.take("ndc", str, "ndc" if not is_ccs and "ndc" in columns else None),
    )
    group.close()
    return join


def _published(keys: _Keys) -> PublishedClock:
    body = _Keys(keys.take("published", dict, {}), f"{keys.place}.published")
    time, hide, operator = body.rule("time"), body.names("hide"), body.take("operator", str, "<=")
    if operator not in ("<", "<="):
        raise UserError(f"{body.place}.operator: write '<' or '<=', not {operator!r}")
    body.close()
    return PublishedClock(time=time, hide=hide, operator=operator)


def _pending(keys: _Keys) -> PendingRows | None:
    body = keys.take("pending", dict)
    if body is None:
        return None
    pending = _Keys(body, f"{keys.place}.pending")
    reflex = _Keys(pending.take("reflex", dict, {}), f"{pending.place}.reflex")
    rows = PendingRows(
        group=pending.names("group"),
        columns=pending.names("columns"),
        at=_need_rule(pending, "at"),
        until=_need_rule(pending, "until"),
        reflex_column=reflex.take("column", str),
        reflex_patterns=reflex.names("patterns"),
    )
    reflex.close()
    pending.close()
    return rows


def _derive(keys: _Keys) -> Derivation | None:
    body = keys.take("derive", dict)
    if body is None:
        return None
    derive = _Keys(body, f"{keys.place}.derive")
    found = Derivation(
        source=derive.need("from", str),
        function=derive.need("function", str),
        text=derive.take("text", str, "text"),
        where=dict(derive.take("where", dict, {})),
    )
    derive.close()
    return found


def _age(keys: _Keys) -> AgeColumns | None:
    body = keys.take("age", dict)
    if body is None:
        return None
    age = _Keys(body, f"{keys.place}.age")
    found = AgeColumns(
        anchor_age=age.take("anchor_age", str),
        anchor_year=age.take("anchor_year", str),
        birth=age.take("birth", str),
        birth_year=age.take("birth_year", str),
        birth_month=age.take("birth_month", str),
        birth_day=age.take("birth_day", str),
        hide=age.names("hide"),
    )
    age.close()
    return found


def _joined(
    joins: tuple[DictionaryJoin, ...],
    group: GroupJoin | None,
    first_of: Iterable[str],
    dictionaries: Mapping[str, DictionarySpec],
) -> dict[str, ColumnType]:
    joined: dict[str, ColumnType] = {}
    for join in joins:
        dictionary = dictionaries.get(join.table)
        columns = dictionary.columns if dictionary else {}
        joined.update({new: columns.get(old, "text") for new, old in join.add.items()})
    if group is not None:
        joined[group.name] = "text"
    for name in first_of:
        joined[name] = "text"
    return joined
