"""A YAML file as MindFormers itself loads it: YAML 1.1, and no code of the file is run."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from mindport.errors import MindportError
from mindport.i18n import tr

LONGEST = 1 << 20
"""Characters of a file; MindFormers' own have some ten thousand."""
DEEPEST = 20
"""Levels; MindFormers refuses more than 10."""
MOST = 100_000
"""Values, with what aliases repeat."""


def load(text: str, name: str = "YAML") -> dict[str, Any]:
    """The document as plain dicts, lists and scalars.

    Args:
        name: what to call it in a message.

    Raises:
        MindportError: it is not a mapping, not valid YAML, has a key twice, tags, or is absurdly large.
    """
    import yaml  # only where a YAML is read

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses a key that stands twice in a mapping: PyYAML takes the last in silence."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[Any] = set()
            for key, _ in node.value:
                if key.tag != "tag:yaml.org,2002:merge" and isinstance(key.value, str):
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(
                            None, None, tr("the key {key} stands twice", key=key.value), key.start_mark
                        )
                    seen.add(key.value)
            found: dict[Hashable, Any] = super().construct_mapping(node, deep)
            return found

    if len(text) > LONGEST:
        raise MindportError(
            tr("{name} has more than {most} characters.", name=name, most=LONGEST), tr("Give a training YAML.")
        )
    try:
        found = yaml.load(text, Loader)  # a subclass of the safe loader
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())
        raise MindportError(
            tr("{name} cannot be read: {what}.", name=name, what=what), tr("Correct it in the file.")
        ) from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise MindportError(
            tr("{name} cannot be read: {what}.", name=name, what=str(error) or type(error).__name__),
            tr("Correct it in the file."),
        ) from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise MindportError(tr("{name} is no mapping of sections.", name=name), tr("Give a training YAML."))
    _check_size(found, name)
    return found


def _check_size(document: dict[str, Any], name: str) -> None:
    """Count what aliases unfold to, without walking further than is allowed."""
    left, waiting = MOST, [(document, 1)]
    while waiting:
        value, depth = waiting.pop()
        parts = list(value.values()) if isinstance(value, dict) else value
        left -= len(parts)
        if left < 0 or depth > DEEPEST:
            raise MindportError(
                tr("{name} unfolds to more values or levels than any training YAML has.", name=name),
                tr("Correct it in the file."),
            )
        waiting += [(part, depth + 1) for part in parts if isinstance(part, dict | list)]
