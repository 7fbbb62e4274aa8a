"""Edits YAML text in place.

PyYAML says where each node begins and ends; new text is put there, in the indentation and style around it. A line that
need not change stays as it is, byte for byte: comments, order, quotes and widths. A result that does not parse to the
intended data is never returned.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct

from leadsman.cli.flags.options import CommandFailed
from leadsman.decision.yaml_document import error_text

YamlPath = tuple[str | int, ...]
"""Keys and positions that lead to a node of a document."""

REMOVED = object()


class ConfigureError(CommandFailed):
    """The file cannot be changed safely; the text names the place and what to do."""


def value_at(data: Any, *path: str | int) -> Any:
    """Returns the value at this path; None when there is none."""
    for step in path:
        if isinstance(step, str):
            data = data.get(step) if isinstance(data, Mapping) else None
        else:
            data = data[step] if isinstance(data, list) and step < len(data) else None
    return data


class YamlEdit(Struct, frozen=True):
    """Sets the value at a path, which is replaced, or added as a key of a mapping or an item after the last.

    value: REMOVED takes a key of a mapping away.
    """

    path: YamlPath
    value: Any


def load_documents(text: str) -> list[Any]:
    """Returns the data of each document. Raises ConfigureError when the text is not YAML."""
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ConfigureError(f"cannot be read as YAML: {error_text(error)}") from error
    except RecursionError as error:
        raise ConfigureError("cannot be read as YAML: it is nested too deep") from error


def apply_edits(text: str, document: int, puts: Sequence[YamlEdit]) -> str:
    """Returns the text with all edits made in that document. Raises ConfigureError when one cannot be made in place."""
    for put in puts:
        intended = _unshared(load_documents(text))
        _put_data(intended, (document, *put.path), put.value)
        text = _put_text(text, document, put)
        if load_documents(text) != intended:
            shown = ".".join(map(str, put.path))
            raise ConfigureError(
                f"{shown}: cannot be changed in place, perhaps because of anchors; write it without them"
            )
    return text


def _unshared(data: Any) -> Any:
    """Returns a copy in which each alias is a value of its own."""
    if isinstance(data, list):
        return [_unshared(item) for item in data]
    return {key: _unshared(value) for key, value in data.items()} if isinstance(data, dict) else data


def _put_data(data: Any, path: YamlPath, value: Any) -> None:
    *way, last = path
    for step in way:
        if data[step] is None:
            data[step] = [] if isinstance(last, int) else {}
        data = data[step]
    if value is REMOVED:
        del data[last]
    elif isinstance(data, list) and last == len(data):
        data.append(value)
    else:
        data[last] = value


def _put_text(text: str, document: int, put: YamlEdit) -> str:
    root = list(yaml.compose_all(text, Loader=yaml.SafeLoader))[document]
    parent, last = _node(root, put.path[:-1]), put.path[-1]
    present = _child(parent, last)
    if present is not None and put.value is REMOVED:
        return _without(text, parent, last, present)
    if present is not None:
        return _replaced(text, parent, present, put.value)
    if not getattr(parent, "value", None) or isinstance(parent, yaml.ScalarNode):
        owner = _node(root, put.path[:-2])
        return _replaced(text, owner, parent, [put.value] if isinstance(last, int) else {last: put.value})
    return _appended(text, parent, put.value if isinstance(last, int) else {last: put.value})


def _without(text: str, parent: yaml.Node, key: str | int, present: yaml.Node) -> str:
    """Returns the text without a key of a mapping and its value."""
    begin = next(each.start_mark.index for each, _ in parent.value if each.value == key)
    if not _flowing(parent):
        return text[:begin].rstrip(" ") + text[_next_line(text, _end(present)) :]
    before, after = text[:begin].rstrip(), text[_end(present) :].lstrip()
    return before + after[1:].lstrip() if after.startswith(",") else before.removesuffix(",") + after


def _replaced(text: str, parent: yaml.Node, node: yaml.Node, value: Any) -> str:
    begin, end = node.start_mark.index, _end(node)
    if not isinstance(value, (dict, list)) or _flowing(parent):
        return text[:begin] + _spaced(text, begin, _flow(value)) + text[end:]
    if isinstance(parent, yaml.SequenceNode):
        return text[:begin] + _indented(_block(value), node.start_mark.column).lstrip() + text[end:]
    # A mapping's value, which begins on the line below its key.
    column = parent.start_mark.column + 2
    return text[:begin].rstrip(" \n") + "\n" + _indented(_block(value), column) + text[end:]


def _appended(text: str, parent: yaml.Node, value: Any) -> str:
    """Returns the text with a value appended to a list or mapping.

    value: an item, or a mapping of one key.
    """
    sequence = isinstance(parent, yaml.SequenceNode)
    if _flowing(parent):
        inner = _flow(value) if sequence else _flow(value)[1:-1]
        end = len(text[: _end(parent) - 1].rstrip().rstrip(","))
        return text[:end] + ", " + inner + text[end:]
    place = _next_line(text, _end(parent))
    before = text[:place] if text[:place].endswith("\n") else text[:place] + "\n"
    block = _block([value]) if sequence else _block(value)
    return before + _indented(block, parent.start_mark.column) + "\n" + text[place:]


def _node(root: yaml.Node, path: YamlPath) -> yaml.Node:
    for step in path:
        found = _child(root, step)
        assert found is not None, f"{path}: the data has it, so has the text"
        root = found
    return root


def _child(parent: yaml.Node, step: str | int) -> yaml.Node | None:
    if isinstance(parent, yaml.MappingNode):
        return next((value for key, value in parent.value if key.value == step), None)
    if isinstance(parent, yaml.SequenceNode) and isinstance(step, int):
        return parent.value[step] if step < len(parent.value) else None
    return None


def _end(node: yaml.Node) -> int:
    """Returns the index of the end of the node's text. PyYAML ends a block where the next begins, past comments that
    follow it."""
    if isinstance(node, yaml.ScalarNode) or _flowing(node) or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _flowing(node: yaml.Node) -> bool:
    return bool(getattr(node, "flow_style", False))


def _next_line(text: str, index: int) -> int:
    if text[:index].endswith("\n"):
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _block(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False, width=10_000).rstrip("\n")


def _flow(value: Any) -> str:
    """Returns the value on one line. JSON is YAML."""
    return json.dumps(value) if not isinstance(value, str) else _word(value)


def _word(value: str) -> str:
    plain = yaml.safe_dump(value, width=10_000).removesuffix("...\n").strip()
    return plain if not set(plain) & set(",[]{}\n") else json.dumps(value)


def _indented(block: str, column: int) -> str:
    return "\n".join(" " * column + line for line in block.split("\n"))


def _spaced(text: str, begin: int, value: str) -> str:
    """`key:` without a value ends at its colon."""
    return f" {value}" if text[:begin].endswith(":") else value
