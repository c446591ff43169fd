"""Gradients of tensors of PyTorch that are changed in place.

A hook on a tensor belongs to the node that made it. Where a view is changed in place, PyTorch gives its base
a new node, `CopySlices`, and from then on no gradient passes through the nodes of older views: their hooks
are silent, or tell a part. A tensor that is no view keeps its node, and its hook.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

Notes = Callable[[Any], None]


class Alias:
    """A view of an input, whose gradient is what the call contributes.

    What flows through nodes of the alias and through the first change of its base makes up the gradient."""

    def __init__(self, torch: Any, value: Any, note: Notes) -> None:
        self.tensor = torch.ops.aten.alias.default(value)
        self.base = self.tensor._base
        self._note = note
        # What the base was made by before the call; all gradients of the call come before it.
        self._made_by = self.base.grad_fn
        self._geometry = (
            tuple(value.shape),
            tuple(value.stride()),
            value.storage_offset() - self.base.storage_offset(),
        )
        # Whether gradients pass by the alias.
        self.changed = False
        self._shares: list[Any] = []
        self.tensor.register_hook(self._pass)

    def returned(self) -> None:
        """Looks for a change in place, once the function has returned."""
        first = self._first_change()
        if first is None:
            return
        self.changed = True
        first.register_hook(self._pass_change)
        self._made_by.register_prehook(self._end)

    def _first_change(self) -> Any:
        """The node of the first change of the base since the call began."""
        node = self.base.grad_fn
        while self._made_by is not None and node is not None and node is not self._made_by:
            before = node.next_functions[0][0] if node.next_functions else None
            if before is self._made_by:
                return node
            node = before
        return None

    def _pass(self, gradient: Any) -> None:
        if self.changed:
            self._shares.append(gradient)
        else:
            self._note(gradient)

    def _pass_change(self, gradients: Any, _: Any) -> None:
        whole = gradients[0]
        if whole is None:
            return
        if whole.stride() != self.base.stride():
            packed = whole.new_empty_strided(self.base.shape, self.base.stride())
            whole = packed.copy_(whole)
        self._shares.append(whole.detach().as_strided(*self._geometry))

    def _end(self, _: Any) -> None:
        if self._shares:
            self._note(functools.reduce(lambda one, other: one + other, self._shares))
            self._shares.clear()


def watch(value: Any, aliases: Iterable[Alias], note: Notes) -> bool:
    """Has `note` told the gradient of a result; returns whether a change in place would end that."""
    if not _is_passed_by(value, aliases):
        value.register_hook(note)
        return bool(value._is_view())
    import torch

    # Saved tensors are those of the same version: no element changes.
    autograd: Any = torch.autograd
    with autograd._unsafe_preserve_version_counter(value):
        _node().apply(value, note)
    return False


def _is_passed_by(value: Any, aliases: Iterable[Alias]) -> bool:
    """Whether a change in place would have gradients pass by the tensor, and can be made.

    What is a view of an unchanged input stays as it is: a node of its own would be one of the input, too."""
    import torch

    if not value._is_view():
        return False
    base = value._base
    if base.grad_fn is None and base.requires_grad:
        return False
    creation: Any = torch._C._autograd
    if creation._get_creation_meta(value) != creation.CreationMeta.DEFAULT:
        return False
    return all(alias.changed for alias in aliases if alias.base is base)


@functools.cache
def _node() -> Any:
    """A node that tells the gradient which passes, made as if the tensor were changed in place."""
    import torch

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: Any, note: Notes) -> Any:
            context.note = note
            context.mark_dirty(value)
            return value

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            context.note(gradient.detach())
            return gradient, None

    return Watched
