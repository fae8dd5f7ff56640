"""A device for machines without one: tensors in main memory that keep to the rules of a GPU's.

No such tensor becomes an array of NumPy or meets a tensor of main memory unless it is told to, as with
``cpu()``, and what is computed from it stays on its device.  Code that breaks a rule fails in a test, as
it would on a GPU.  Where there is a GPU, that is the device.

Of the devices that PyTorch has names for, "lazy" serves best: nothing else uses it, derivatives are
taken in the thread that asks for them, and hardly an operation makes an exception for it.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "cuda" if torch.cuda.is_available() else "lazy"
#: Like those of CUDA, tensors are on a device with a number.
_HOME = torch.device("lazy", 0)

_aten = torch.ops.aten
#: These carry numbers from one device to another.
_CARRIERS = {_aten.copy_, _aten._to_copy}
#: These take indices in main memory for tensors on a device.
_INDEXED = {_aten.index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_}
#: All tensors are made by these, or by functions that call them.
_MAKERS = ("empty.memory_format", "empty_strided", "copy_")
_MAKERS += ("arange", "arange.start", "arange.start_step", "eye", "eye.m")


class Far(torch.Tensor):
    """A tensor on the device, with the numbers of the tensor ``near``, which only this file sees."""

    near: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> Far:
        options: dict[str, Any] = {"dtype": near.dtype, "device": _HOME, "layout": near.layout}
        if near.layout == torch.strided:
            options |= {"strides": near.stride(), "storage_offset": near.storage_offset()}
        else:
            options["dispatch_layout"] = True  # else it would be said to be strided
        self: Far = torch.Tensor._make_wrapper_subclass(cls, near.shape, **options)
        self.near = near
        return self

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operation, *args, **(kwargs or {}))

    def numpy(self, **options: Any) -> Any:
        raise TypeError("can't convert far tensor to numpy. Use Tensor.cpu() to copy it first.")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __repr__(self, **options: Any) -> str:
        return f"Far({self.near!r})"


def _run(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of an operation of PyTorch: on the device, unless the operation says otherwise."""
    if operation is torch.ops.prim.layout.default:
        return args[0].near.layout
    _refuse_mixed(operation, args, kwargs)
    near_args, near_kwargs = tree_map(_near, (args, kwargs))
    found = operation(*near_args, **near_kwargs)
    place = kwargs.get("device")
    if place is not None and torch.device(place).type == "cpu":
        return found
    # What is changed in place is the same tensor afterwards.
    known = {id(_near(x)): x for x in _tensors(args, kwargs)}
    if torch.Tag.inplace_view in operation.tags:  # its shape, too
        _reshape(operation, *args, **kwargs)

    def far(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        same = known.get(id(x))
        assert same is None or same.shape == x.shape, f"{operation} changes a shape in place"
        return Far(x) if same is None else same

    return tree_map(far, found)


def _reshape(operation: Any, *args: Any, **kwargs: Any) -> None:
    """Give a tensor another shape, as PyTorch does for tensors without numbers."""
    with torch._C._DisableTorchDispatch():
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            operation(*args, **kwargs)
        finally:
            torch._C._set_meta_in_tls_dispatch_include(False)


def _near(x: Any) -> Any:
    if isinstance(x, torch.device) and x.type == _HOME.type:
        return torch.device("cpu")
    return x.near if isinstance(x, Far) else x


def _tensors(*parts: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(parts) if isinstance(x, torch.Tensor)]


def _refuse_mixed(operation: Any, args: Any, kwargs: Any) -> None:
    """Raise for tensors on two devices; only a single number may be in main memory, and be read."""
    name = operation.overloadpacket
    if name in _INDEXED and isinstance(args[0], Far):
        args = args[0], *args[2:]
    tensors = _tensors(args, kwargs)
    here = [x for x in tensors if not isinstance(x, Far)]
    if name in _CARRIERS or len(here) in (0, len(tensors)):
        return
    if any(x.ndim for x in here) or (operation._schema.is_mutable and here[0] is args[0]):
        raise RuntimeError(f"Expected all tensors to be on the same device, but those of {name} are not")


def _register() -> torch.library.Library:
    """Let PyTorch make tensors on the device; functions such as ``zeros`` and ``tensor`` follow."""
    torch.lazy = SimpleNamespace()  # where checkpoints look for functions of a device
    library = torch.library.Library("aten", "IMPL")
    for name in _MAKERS:
        packet, _, overload = name.partition(".")
        operation = getattr(getattr(_aten, packet), overload or "default")
        library.impl(name, partial(_run, operation), "Lazy")
    return library


_LIBRARY = _register() if DEVICE == "lazy" else None
