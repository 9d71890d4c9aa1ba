"""How much an update counts that comes late: a function of its staleness, the aggregations since its job began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from netsim.base.arrays import Floats, Ints
from netsim.base.errors import either
from netsim.base.field_errors import field_error
from netsim.base.fields import Model

USES = {"constant": (), "polynomial": ("a",), "hinge": ("a", "b")}      # which parameters each function has
BY_DEFAULT = {"polynomial": {"a": 0.5}, "hinge": {"a": 10.0, "b": 4.0}}


class Staleness(Model):
    """``constant``: 1; ``polynomial``: (1 + tau)^-a; ``hinge``: 1 up to tau = b, then 1 / (a (tau - b) + 1)."""

    kind: Literal["constant", "polynomial", "hinge"]
    a: Annotated[float, Field(gt=0, le=1000)] | None = None
    b: Annotated[float, Field(ge=0, le=1e9)] | None = None

    @model_validator(mode="after")
    def _only_what_it_has(self) -> Self:
        for name in ("a", "b"):
            if getattr(self, name) is not None and name not in USES[self.kind]:
                raise field_error("no-effect", name, hint=f'"{self.kind}" has '
                                  + (f"only {' and '.join(USES[self.kind])}" if USES[self.kind] else "no parameters"))
        return self

    def __repr__(self) -> str:
        return f"'{self.kind}'" if self.a is None and self.b is None else super().__repr__()

    def _value(self, name: str) -> float:
        given = getattr(self, name)
        return float(BY_DEFAULT[self.kind][name] if given is None else given)

    def weights(self, tau: Ints) -> Floats:
        """s(tau) of each."""
        late = np.asarray(tau, np.float64)
        if self.kind == "constant":
            return np.ones(len(late))
        if self.kind == "polynomial":
            return np.asarray((1.0 + late) ** -self._value("a"))
        return np.asarray(1.0 / (self._value("a") * np.maximum(0.0, late - self._value("b")) + 1.0))


def _by_name(given: Any) -> Any:
    """A name alone stands for the function with its usual parameters."""
    if isinstance(given, Mapping) and "kind" not in given:
        raise field_error("missing", "kind", expected=either(list(USES)))
    return {"kind": given} if isinstance(given, str) else given


ByStaleness = Annotated[Staleness, BeforeValidator(_by_name), Field(
    description='"constant", "polynomial", "hinge", or a table with the kind and its a and b')]
POLYNOMIAL = Staleness(kind="polynomial")
