"""What a load check found: everything that is off, at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindport.checkpoint.problems import collapse_names, listed, prefix_between
from mindport.errors import MindportError, brief
from mindport.i18n import tr


@dataclass(frozen=True)
class Misfit:
    """A tensor that is not as the parameter of its name.

    Args:
        name: of both.
        given: shape or dtype of the tensor.
        needed: that of the parameter.
    """

    name: str
    given: str | tuple[int, ...]
    needed: str | tuple[int, ...]


@dataclass(frozen=True)
class LoadReport:
    """The parameters of a network and the tensors of a file, compared by their exact names.

    Args:
        tensors: how many parameters hold exactly the values of the file. 0 where names, shapes or dtypes are off: then
            no values were loaded.
        nbytes: of these tensors in the file.
        stored_dtypes: of these tensors in the file.
        widened: those of them that were widened to float32, without loss.
        carried: how many more tensors the file holds that are carried along and not computed with.
        not_loaded: parameters without a tensor, and tensors to be carried along that the file lacks.
        extra: tensors without a parameter.
        shapes, dtypes: what differs between a tensor and its parameter.
        repeated: names that occur more than once among the tensors, or among the parameters.
        values: parameters that do not hold the values of the file afterwards.
    """

    tensors: int = 0
    nbytes: int = 0
    stored_dtypes: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    carried: int = 0
    not_loaded: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    shapes: tuple[Misfit, ...] = ()
    dtypes: tuple[Misfit, ...] = ()
    repeated: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many things are off."""
        return len(self._rows)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """(name, what is off) in the user's language, with layers collapsed."""
        return collapse_names(self._rows)

    @property
    def _rows(self) -> list[tuple[str, str]]:
        return [
            *((name, tr("not loaded: there is no tensor of this name")) for name in self.not_loaded),
            *((name, tr("extra: the network has no parameter of this name")) for name in self.extra),
            *((m.name, tr("shape {given}, the network needs {needed}", given=m.given, needed=m.needed))
              for m in self.shapes),
            *((m.name, tr("dtype {given}, the network needs {needed}", given=m.given, needed=m.needed))
              for m in self.dtypes),
            *((name, tr("more than one has this name")) for name in self.repeated),
            *((name, tr("the network does not hold the values it was given")) for name in self.values),
        ]  # fmt: skip

    @property
    def hint(self) -> str:
        """A sentence about a prefix, if nothing else sets the names apart. Names are never changed because of it."""
        prefix = _prefix(self.extra, self.not_loaded)
        if prefix:
            return tr(
                "The names of the file would fit without their prefix {prefix}; rename them.", prefix=brief(prefix)
            )
        prefix = _prefix(self.not_loaded, self.extra)
        if prefix:
            return tr("The names of the file would fit with the prefix {prefix}; rename them.", prefix=brief(prefix))
        return ""


class LoadError(MindportError):
    """Weights and network do not fit. `report` holds everything that was found."""

    def __init__(self, report: LoadReport) -> None:
        super().__init__(
            tr("{count} weights do not fit the network:\n{list}", count=report.count, list=listed(report.rows, 40)),
            report.hint,
        )
        self.report = report


def _prefix(longer: Sequence[str], shorter: Sequence[str]) -> str:
    """What every one of the longer names has before one of the shorter, if they are the same but for that."""
    prefix = prefix_between(longer, shorter)
    return prefix if prefix.endswith(".") and len({*longer}) == len({*shorter}) else ""
