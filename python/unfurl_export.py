#!/usr/bin/env python3
"""unfurl_export.py FILE.py:MODULE WEIGHTS MODEL.h5 - a PyTorch module as a model file of unfurl.

FILE.py:MODULE  a class, a function that makes a module, a module, or an expression: 'net.py:Generator(nz=100)'
WEIGHTS         a state_dict as torch.save, safetensors or h5py wrote it; '-' keeps those that the module has
MODEL.h5        is written: weights, graph, shapes. docs/model-format.md of unfurl defines it

The module runs on example inputs in eval mode, in double where it can, and each call of torch becomes a line of the
graph. It runs again on other shapes: extents that may vary are named (N, H, W, L) in the file. Weight norm and spectral
norm are folded. A call that unfurl has no layer for ends in one sentence with its place, and exit status 1.

Needs PyTorch (1.13 or 2) and h5py. As a library: export(module, inputs, path).
"""
import argparse
import dataclasses
import inspect
import json
import os
import re
import sys
import traceback
import weakref

# A function that torch.jit or torch.compile has compiled runs as its Python code, where torch is not loaded yet.
os.environ.setdefault("PYTORCH_JIT", "0")
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

import h5py
import numpy as np
import torch
from torch import nn

TORCH_FOLDER = os.path.dirname(torch.__file__)
HERE = os.path.abspath(__file__)
MAX_INPUTS = 8
# From torch 2.0 on the other name means all overriding, that of modes too.
NoOverride = getattr(torch._C, "DisableTorchFunctionSubclass", None) or torch._C.DisableTorchFunction


class Refused(Exception):
    """One sentence for the user."""


class Kept(Refused):
    """A module keeps a value from one run to the next."""


class UsageError(Exception):
    """One sentence about the command line."""


# ---- tensors that write down what happens to them ----


class Traced(torch.Tensor):
    """A tensor with the name of the graph's value that it is (`value`), or a parameter's name (`parameter`). `fixed`
    says that no input made it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if TRACER is None:  # a run has left it in the module
            with NoOverride():
                return func(*plain(args), **plain(kwargs or {}))
        return TRACER.call(func, args, kwargs or {})


TRACER = None  # of the module that runs now


def plain(tree):
    """The same arguments, made of ordinary tensors that share their memory."""
    if isinstance(tree, Traced):
        return tree.as_subclass(torch.Tensor)
    if isinstance(tree, torch.Size):
        return tree
    if isinstance(tree, (tuple, list)):
        made = [plain(item) for item in tree]
        return type(tree)(made) if type(tree) in (tuple, list) else made
    if isinstance(tree, dict):
        return {key: plain(item) for key, item in tree.items()}
    return tree


def traced_in(tree):
    if isinstance(tree, Traced):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from traced_in(item)
    elif isinstance(tree, dict):
        yield from traced_in(list(tree.values()))


def ordinary_in(tree):
    """The tensors of arguments that are not traced."""
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from ordinary_in(item)
    elif isinstance(tree, dict):
        yield from ordinary_in(list(tree.values()))
    elif isinstance(tree, torch.Tensor) and not isinstance(tree, Traced):
        yield tree


def of_input(x):
    """Whether an input made it."""
    return isinstance(x, Traced) and not x.fixed


def memory_of(x):
    with NoOverride():
        whole = x._base if x._is_view() and x._base is not None else x
        return whole.data_ptr()


class Node:
    def __init__(self, name, layer, inputs, options, scope):
        self.name, self.layer, self.inputs, self.options, self.scope = name, layer, inputs, options, scope
        self.before = ()  # of a reshape: the input's shape


# Names that tell of a tensor without reading its elements.
FACTS = {"shape", "size", "dim", "ndim", "ndimension", "dtype", "device", "layout", "numel", "nelement", "__len__",
         "is_floating_point", "is_complex", "is_cuda", "is_sparse", "is_quantized", "is_mps", "requires_grad", "grad",
         "grad_fn", "is_leaf", "is_contiguous", "stride", "storage_offset", "data_ptr", "_version", "names",
         "has_names", "__hash__", "is_nested", "is_meta", "is_inference", "element_size", "get_device", "type",
         "__repr__", "__str__", "__format__", "is_signed", "requires_grad_", "_backward_hooks", "itemsize", "is_xpu",
         "is_mkldnn", "nbytes", "storage", "untyped_storage", "storage_type", "dim_order", "is_neg", "is_conj",
         "is_same_size", "__reversed_shape__", "is_vulkan", "is_ipu", "is_xla", "_assert_tensor_metadata", "sym_size",
         "sym_numel", "sym_stride", "sym_storage_offset"}
# Names that need the elements themselves.
BRANCHES = {"__bool__", "item", "__float__", "__int__", "__index__", "__complex__", "tolist", "numpy", "__array__",
            "is_nonzero", "equal", "allclose", "__contains__"}
# Names of calls that make a tensor that has no more of another one than its type.
MAKERS = {"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "empty_like"}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "any", "all", "logical_and",
               "logical_or", "logical_not", "max", "min", "argmax", "argmin"}
# NumPy's names of arguments, which torch takes too.
NUMPY_ARGUMENTS = {"axis": "dim", "keepdims": "keepdim"}
# Names of calls that take from another tensor its type or its shape alone.
LIKE_ANOTHER = {"to", "type_as", "view_as", "reshape_as", "expand_as"}
# Names of calls that change the shape of a tensor itself.
SHAPES_IN_PLACE = {"unsqueeze_", "squeeze_", "transpose_", "t_", "swapaxes_", "swapdims_"}
# Functions of torch whose arguments stand in another order than those of torch.nn.functional.
OTHER_ORDERS = {"batch_norm", "instance_norm", "embedding"}
ALIASES = {"truediv": "div", "divide": "div", "true_divide": "div", "multiply": "mul", "subtract": "sub",
           "absolute": "abs", "negative": "neg", "clip": "clamp", "concat": "cat", "concatenate": "cat",
           "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "view": "reshape", "bmm": "matmul",
           "mm": "matmul", "square": "square", "fix": "trunc", "arctan": "atan", "hsplit": "split",
           "special_expit": "sigmoid", "special_logsumexp": "logsumexp", "special_log_softmax": "log_softmax",
           "linalg_matmul": "matmul",
           "_unsafe_view": "reshape", "max_pool2d_with_indices": "max_pool2d", "max_pool1d_with_indices": "max_pool1d",
           "adaptive_max_pool2d_with_indices": "adaptive_max_pool2d", "native_channel_shuffle": "channel_shuffle",
           "adaptive_max_pool1d_with_indices": "adaptive_max_pool1d", "take_along_dim": "gather",
           "upsample": "interpolate", "feature_dropout": "dropout2d",
           "adaptive_avg_pool2d": "adaptive_avg_pool2d", "special_softmax": "softmax"}


def name_of(func):
    """'add' of torch.add, Tensor.add_, Tensor.__iadd__; a property's name of its getter."""
    func = getattr(func, "overloadpacket", func)  # torch.ops.aten.add of torch.ops.aten.add.Tensor
    name = getattr(func, "__name__", str(func))
    if func is torch.Tensor.unfold:
        return "Tensor.unfold"
    if name in OTHER_ORDERS and not inspect.isfunction(func):
        return f"torch_{name}"
    if name == "__get__":
        return func.__self__.__name__
    if name in FACTS or name in BRANCHES or name in ("__getitem__", "__setitem__", "__iter__"):
        return name
    if re.fullmatch(r"__\w+__", name):
        name = name[2:-2]
        if name[0] == "i" and name[1:] in ("add", "sub", "mul", "truediv", "div", "pow"):
            name = name[1:]
    name = name.rstrip("_")
    return ALIASES.get(name, name)


class Tracer:
    """A run of a module, as nodes."""

    def __init__(self, module, in_place):
        self.in_place = in_place
        self.nodes, self.names, self.tensors, self.values = [], {}, {}, {}
        self.parameter_nodes, self.constants, self.places = {}, [], {}
        self.scopes = {}  # by the tensors: scopes made for parameters that are not those of one module
        self.overwrites = {}  # by the address of the memory: what was last done in place there
        self.written = {}  # by the address of the whole tensor's memory: where that was
        self.spoilt = []  # tensors that are not traced, into which a value was written
        self.own = {name for name, _ in [*module.named_parameters(), *module.named_buffers()]}
        self.stack, self.paths = [], {}
        self.first = None  # (name, tensor) of the first input
        self.indices = {}  # the shapes of inputs of indices
        self.within = []  # functions of torch whose Python code runs
        for path, part in module.named_modules():
            self.paths.setdefault(id(part), path)

    # ---- places ----

    def path(self):
        return self.stack[-1][0] if self.stack else ""

    def place(self):
        """'main.3 (Generator, net.py line 12)'"""
        if not self.stack:
            return "an output of the module"
        frames = [f for f in traceback.extract_stack() if not f.filename.startswith(TORCH_FOLDER)
                  and os.path.abspath(f.filename) != HERE]
        line = f"{os.path.basename(frames[-1].filename)} line {frames[-1].lineno}" if frames else "no line"
        kind = type(self.stack[-1][1]).__name__
        return f"{self.path() or 'the module'} ({kind}, {line})"

    def refuse(self, reason):
        raise Refused(f"{self.place()}: {reason}")

    # ---- names and nodes ----

    def free_name(self, base):
        base = base[:140] or "value"
        count = self.names.get(base, 0) + 1
        self.names[base] = count
        if count == 1:
            return base
        return self.free_name(f"{base}_{count}")

    def node(self, layer, inputs, scope=None, base=None, **options):
        """Append a node and return its name."""
        if base is None:
            path = self.path()
            of_torch = bool(self.stack) and type(self.stack[-1][1]).__module__.startswith("torch.nn")
            base = path if path and of_torch else f"{path}.{layer}" if path else layer
            if scope and not scope.startswith("constants."):
                base = scope
        made = Node(self.free_name(base), layer, list(inputs), options, scope)
        self.nodes.append(made)
        return made.name

    def wrap(self, tensor, value, parameter=None, fixed=False):
        if isinstance(value, str) and tensor.is_floating_point() and not isinstance(tensor, Traced):
            self.values[value] = tensor.detach().clone()
        made = tensor.as_subclass(Traced)
        made.value, made.parameter, made.fixed, made.tracer = value, parameter, fixed, self
        made.seen, made.reads = tensor._version, [0]
        return made

    def store(self, name, tensor):
        self.tensors[name] = tensor.detach() if name in self.own else tensor.detach().clone()

    # ---- operands ----

    def adopt(self, x):
        """Take over what an earlier run has made: a constant that the module keeps."""
        if not x.fixed:
            raise Kept(f"{self.place()}: it reads a value that the module has kept from the run before; make that an input")
        x.value, x.parameter, x.seen, x.tracer = None, self.constant_name(x), x._version, self

    def latest(self, x):
        """The operand's value, also where something was done to it in place."""
        if x._version == x.seen:
            return x.value
        found = self.overwrites.get(x.data_ptr())
        if found is None:
            self.refuse(f"it reads a value after {self.written.get(memory_of(x), 'something')} wrote into its memory, in "
                        "place on a part of a tensor or through a view; write that without an operation in place")
        value, geometry, what, result, reads = found
        same = geometry == (x.shape, x.stride())
        unused = result() is None and reads[0] == 0
        if same and (self.in_place or unused):
            return value
        self.refuse(f"it reads a value that {what} has overwritten in place"
                    + (", and that result is read too; --in-place exports what PyTorch computes: the new value"
                       if same else " through a view"))
        return None

    def ref(self, x):
        """The name of the value that an operand is."""
        if isinstance(x, Traced):
            x_reads = getattr(x, "reads", None)
            if x_reads is not None:
                x_reads[0] += 1
            if x.value is not None:
                value = self.latest(x)
                if isinstance(value, Unknown):
                    self.refuse(f"{value.name} is no layer of unfurl, and its result is read here")
                return value
            return self.parameter_node(x.parameter, x)
        if isinstance(x, torch.Tensor):
            return self.constant(x)
        raise TypeError(f"an operand is {type(x).__name__}")

    def parameter_node(self, name, tensor):
        if name not in self.parameter_nodes:
            if len(name.rsplit(".", 1)[-1]) > 63:
                self.refuse(f"the parameter {name} has a name of more than 63 characters")
            scope, _, last = name.rpartition(".")
            self.store(name, plain(tensor))
            made = Node(self.free_name(name), "parameter", [], {"name": last, "shape": tuple(tensor.shape)}, scope)
            self.nodes.append(made)
            self.parameter_nodes[name] = made.name
        return self.parameter_nodes[name]

    def constant_name(self, tensor):
        """The name in the file of a tensor that is no parameter. After a change in place it is another one."""
        for known, version, name in self.constants:
            if known is tensor and version == tensor._version:
                return name
        if tensor.is_complex():
            self.refuse("a complex tensor")
        if any(tensor is spoilt for spoilt in self.spoilt):
            self.refuse("it reads a constant that a value was written into; write that without an operation in place")
        name = f"constants.{len(self.constants)}"
        self.constants.append((tensor, tensor._version, name))
        self.places[name] = self.place()
        return name

    def constant(self, tensor):
        """A tensor that is no parameter: it goes into the file as one."""
        return self.parameter_node(self.constant_name(tensor), tensor.to(torch.get_default_dtype()))

    def own_scope(self, tensors):
        """A scope for {last name: tensor} of tensors that no input has made."""
        key = tuple((last, getattr(x, "parameter", None) or self.constant_name(x)) for last, x in tensors.items())
        if key not in self.scopes:
            self.scopes[key] = f"constants.{len(self.constants)}"
            self.constants.append((None, 0, self.scopes[key]))
            for last, x in tensors.items():
                self.store(f"{self.scopes[key]}.{last}", plain(x).to(torch.get_default_dtype()))
        return self.scopes[key]

    def is_index(self, x):
        """Whether it is an input of indices, perhaps under another shape."""
        return of_input(x) and not x.is_floating_point() and x.value in self.indices

    def is_real(self, x):
        return isinstance(x, torch.Tensor) and x.is_floating_point()

    # ---- calls ----

    def call(self, func, args, kwargs):
        with NoOverride():
            made = self.record(func, name_of(func), args, kwargs)
        if made is not self:
            return made
        self.within.append(func)
        try:
            return run_within(func, args, kwargs)
        finally:
            self.within.pop()

    def record(self, func, name, args, kwargs):
        """Do a call and write it down. Itself where the calls within `func` are to be written down instead."""
        if name == "requires_grad_":
            return args[0]
        if name in FACTS and not (name == "type" and len(args) + len(kwargs) > 1) or name.startswith("is_") \
                and name not in BRANCHES:
            return func(*plain(args), **plain(kwargs))
        kwargs = {NUMPY_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
        operands = list(traced_in([args, kwargs]))
        for x in operands:
            if x.tracer is not self:
                self.adopt(x)
        from_input = any(of_input(x) for x in (args[:1] if name in LIKE_ANOTHER else operands))
        if name in BRANCHES:
            if from_input:
                self.refuse("a branch or a number depends on the data of a tensor; a graph has none")
            return func(*plain(args), **plain(kwargs))
        if name in MAKERS and not any(map(of_input, traced_in([args[1:], kwargs]))):
            return func(*plain(args), **plain(kwargs))
        others = list(ordinary_in([args, kwargs]))
        before, others_before = [x._version for x in operands], [x._version for x in others]
        for x in operands:
            if x.value is not None and name in RULES:
                self.latest(x)
        count = len(self.nodes)
        if name == "__setitem__" and from_input:
            return self.assign(func, *args)
        rule = RULES.get(name)
        if rule is None:
            return self.unknown(func, name, args, kwargs, from_input)
        if name in RULES and name not in TAKES_INDICES and any(self.is_index(x) for x in operands):
            self.refuse(f"torch.{name} of an input of indices")
        if name in VIEWS_OF_INTEGERS and not any(self.is_real(x) or of_input(x) for x in operands):
            return func(*plain(args), **plain(kwargs))
        try:
            values = rule(self, *args, **kwargs)
        except (TypeError, ValueError) as error:
            if from_input:
                self.refuse(f"torch.{name} with these arguments is no layer of unfurl ({error})")
            values = None
        except Refused:
            if from_input:
                raise
            values = None
        if getattr(func, "__name__", "") in SHAPES_IN_PLACE and values is not None:
            return self.shape_in_place(func, args, kwargs, values)
        if name == "data" and values is not None:
            out = plain(args[0]).detach()  # `data` does not tell of what is done to it in place
        elif name in CASTS and args[0].is_floating_point() and values is not None:
            out = plain(args[0]).alias() if hasattr(torch.Tensor, "alias") else plain(args[0]).view_as(args[0])
        elif name in CASTS and values is not None and func(*plain(args), **plain(kwargs)).is_floating_point():
            out = plain(args[0]).to(torch.get_default_dtype())
        else:
            out = func(*plain(args), **plain(kwargs))
        overwritten = [x for x, version in zip(operands, before) if x._version != version
                       and name != "instance_norm"]  # it writes its running statistics, unchanged
        if values is None or overwritten and not from_input:  # of parameters alone
            del self.nodes[count:]
            return self.constant_result(out, name, overwritten)
        if isinstance(values, str) and isinstance(out, (tuple, list)):  # an operator that returns more than its result
            values = [values] + [Unknown(f"another result of torch.{name}")] * (len(out) - 1)
        self.spoilt += [x for x, version in zip(others, others_before) if from_input and x._version != version]
        if overwritten:  # the first operand, where others share its memory
            return self.overwrite(name, args[:1] if any(x is args[0] for x in overwritten) else overwritten, values)
        if isinstance(values, str):
            return self.wrap(out, values, fixed=not from_input)
        return type(out)(self.wrap(part, value, fixed=not from_input) for part, value in zip(out, values))

    def constant_result(self, out, name="", overwritten=()):
        """The result of a function of parameters and constants."""
        for x in overwritten:
            if x.parameter in self.own:
                self.refuse(f"torch.{name} changes a parameter in place")
            x.value, x.parameter, x.seen = None, self.constant_name(x), x._version
        if isinstance(out, Traced) or overwritten and any(out is x for x in overwritten):
            return out
        if isinstance(out, (tuple, list)):
            made = [self.constant_result(part) for part in out]
            return type(out)(made) if type(out) in (tuple, list) else made
        if isinstance(out, torch.Tensor) and out.is_floating_point():
            return self.wrap(out, None, self.constant_name(out), True)
        return out

    def assign(self, func, target, index, value):
        """target[index] = value: what is there is 0 times as much, and the value is added between zeros."""
        shape = tuple(target.shape)
        region = region_of(self, shape, index)
        places = [slice(None) if len(range(*part)) == extent else slice(*part) for part, extent in zip(region, shape)]
        mask = torch.ones([1 if place == slice(None) else extent for place, extent in zip(places, shape)])
        mask[tuple(places)] = 0
        if isinstance(value, torch.Tensor):
            made = assigned(self, value, torch.empty(shape)[index].shape, shape, region)
        else:
            made = self.constant((1 - mask) * float(value))
        if of_input(target):
            before = target.value if self.is_written_back(target, index, value) else self.ref(target)
            made = self.node("add", [self.node("mul", [before, self.constant(mask)]), made])
        elif bool((plain(target) * mask).any()):
            made = self.node("add", [self.constant(plain(target) * mask), made])
        func(*plain((target, index, value)))
        if isinstance(target, Traced):
            target.value, target.parameter, target.fixed, target.seen = made, None, False, target._version
            self.values[made] = target.as_subclass(torch.Tensor).detach().clone()
        else:  # the caller's own object: it is a value from now on
            self.values[made] = target.detach().clone()
            target.__class__ = Traced
            target.value, target.parameter, target.fixed, target.tracer = made, None, False, self
            target.seen, target.reads = target._version, [0]

    def is_written_back(self, target, index, value):
        """Whether x[index] += y is what was done to the target: its part was changed in place, and nothing else."""
        part = plain(target)[plain(index)]
        found = self.overwrites.get(part.data_ptr())
        return (target._version == target.seen + 1 and found is not None and isinstance(value, Traced)
                and found[0] == value.value and found[1] == (part.shape, part.stride()))

    def shape_in_place(self, func, args, kwargs, value):
        x = args[0]
        if x.value is None:
            self.refuse("it changes the shape of a parameter in place")
        func(*args, **kwargs)
        x.value, x.seen = value, x._version
        self.values[value] = x.as_subclass(torch.Tensor).detach().clone()
        return x

    def unknown(self, func, name, args, kwargs, from_input):
        if from_input and func not in self.within and may_run_within(func):
            return self
        operands = list(traced_in([args, kwargs]))
        before = [x._version for x in operands]
        out = func(*plain(args), **plain(kwargs))
        if not from_input:
            return self.constant_result(out, name, [x for x, v in zip(operands, before) if x._version != v])
        if name in COMPARISONS and isinstance(out, torch.Tensor):
            return self.wrap(out, Unknown(f"torch.{name}"))  # perhaps nobody reads it but an `if`
        outer = f", in torch.{name_of(self.within[0])}" if self.within and name_of(self.within[0]) != name else ""
        self.refuse(f"torch.{name} is no layer of unfurl{outer}")
        return None

    def overwrite(self, name, overwritten, value):
        target = overwritten[0]
        self.written[memory_of(target)] = self.place()
        if not isinstance(value, str):
            self.refuse(f"torch.{name} changes more than one tensor in place")
        if target.value is None:
            self.refuse(f"torch.{name} changes a parameter in place")
        made = self.wrap(target.as_subclass(torch.Tensor).view_as(target.as_subclass(torch.Tensor)), value)
        self.values[value] = made.as_subclass(torch.Tensor).detach().clone()
        self.overwrites[target.data_ptr()] = (value, (target.shape, target.stride()), f"{self.place()}",
                                              weakref.ref(made), made.reads)
        return made


def may_run_within(func):
    """Whether `func` is Python code of torch that asks first whether it is overridden."""
    return inspect.isfunction(func) and any(name.startswith("has_torch_function") for name in func.__code__.co_names)


def run_within(func, args, kwargs):
    """Run the Python code of a function of torch, so that the calls in it are traced."""
    names = [name for name in func.__globals__ if name.startswith("has_torch_function")]
    saved = {name: func.__globals__[name] for name in names}

    def once(*_):
        func.__globals__.update(saved)
        return False
    func.__globals__.update({name: once for name in names})
    try:
        return func(*args, **kwargs)
    finally:
        func.__globals__.update(saved)


class Unknown:
    """In place of a value: the result of a function that has no layer."""

    def __init__(self, name):
        self.name = name


# ---- rules: a function of torch to nodes ----

RULES = {}
VIEWS_OF_INTEGERS = set()
# Functions that an input of indices may go through: it is looked up as it came, and its result gets the shape.
TAKES_INDICES = {"embedding", "torch_embedding", "one_hot", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze",
                 "view_as", "reshape_as", "ravel", "_reshape_alias", "contiguous", "clone", "detach", "cpu", "cuda",
                 "float", "double", "half", "bfloat16", "type", "type_as", "to", "_to_copy", "long", "int"}


def rule(*names):
    def register(function):
        for name in names:
            RULES[name] = function
        return function
    return register


def pair(x, count=2):
    made = tuple(x) if isinstance(x, (tuple, list)) else (x,) * count
    return made * count if len(made) == 1 else made


def positive(axis, rank):
    return axis + rank if axis < 0 else axis


def scope_of(tr, **tensors):
    """The scope whose parameters these are, by their last names; one made for them where they are not those of one
    module. None where an input made one of them, or where there is none."""
    tensors = {last: x for last, x in tensors.items() if x is not None}
    if not tensors or any(of_input(x) for x in tensors.values()):
        return None
    names = [x.parameter or "" if isinstance(x, Traced) else "" for x in tensors.values()]
    scope = names[0].rpartition(".")[0]
    if names != [f"{scope}.{last}" if scope else last for last in tensors]:
        return tr.own_scope(tensors)
    for name, x in zip(names, tensors.values()):
        tr.store(name, plain(x))
    return scope


def conv(tr, axes, transposed, input, x, weight, bias, options):
    """A convolution of the value `x`, which is that of `input` or that with a border."""
    if input.dim() != axes + 2:
        tr.refuse(f"a convolution of {axes} axes takes (N, C, ...), not {tuple(input.shape)}")
    name = f"conv{'_transpose' if transposed else ''}{axes}d"
    groups = options["groups"]
    scope = scope_of(tr, weight=weight, bias=bias)
    if scope is not None:
        kernel = tuple(weight.shape[2:])
        options = {key: value[0] if isinstance(value, tuple) and axes == 1 else value for key, value in options.items()}
        return tr.node(name, [x], scope, out_channels=weight.shape[1] * groups if transposed else weight.shape[0],
                       kernel=kernel[0] if axes == 1 else kernel, bias=bias is not None, **options)
    kernel = tr.ref(weight)
    if axes == 1:
        name, kernel = name.replace("1d", "2d"), reshaped(tr, kernel, weight.shape, with_height(weight.shape))
        x = tr.node("reshape", [x], shape=(0, 0, 1, -1))
        options = {key: (0 if "padding" in key else 1,) + value if isinstance(value, tuple) else value
                   for key, value in options.items()}
    made = tr.node(name + "_with", [x, kernel] + ([] if bias is None else [tr.ref(bias)]), **options)
    return tr.node("flatten", [made], start=2, end=3) if axes == 1 else made


def with_height(shape):
    return tuple(shape[:2]) + (1,) + tuple(shape[2:])


def plain_conv(axes):
    def apply(tr, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        dilation, x = pair(dilation, axes), tr.ref(input)
        if padding == "valid":
            padding = 0
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
            padding = tuple(t // 2 for t in total)
            if any(t % 2 for t in total) and input.dim() == axes + 2:  # one more at the end
                x = padded(tr, input, [amount for t in reversed(total) for amount in (0, t % 2)])
        return conv(tr, axes, False, input, x, weight, bias, {
            "stride": pair(stride, axes), "padding": pair(padding, axes), "dilation": dilation, "groups": groups})
    return apply


def transposed_conv(axes):
    def apply(tr, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return conv(tr, axes, True, input, tr.ref(input), weight, bias,
                    {"stride": pair(stride, axes), "padding": pair(padding, axes),
                     "output_padding": pair(output_padding, axes), "dilation": pair(dilation, axes), "groups": groups})
    return apply


for _axes in (1, 2):
    RULES[f"conv{_axes}d"] = plain_conv(_axes)
    RULES[f"conv_transpose{_axes}d"] = transposed_conv(_axes)


@rule("linear")
def linear(tr, input, weight, bias=None):
    scope = scope_of(tr, weight=weight, bias=bias)
    if scope is not None:
        return tr.node("linear", [tr.ref(input)], scope, out_features=weight.shape[0], bias=bias is not None)
    return tr.node("linear_with", [tr.ref(input), tr.ref(weight)] + ([] if bias is None else [tr.ref(bias)]))


@rule("bilinear")
def bilinear(tr, input1, input2, weight, bias=None):
    made = einsum(tr, "...i,oij,...j->...o", input1, weight, input2)
    return made if bias is None else tr.node("add", [made, tr.ref(bias)])


@rule("addmm")
def addmm(tr, input, mat1, mat2, beta=1, alpha=1):
    return baddbmm(tr, input, mat1, mat2, beta, alpha)


@rule("embedding")
def embedding(tr, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    scope = scope_of(tr, weight=weight)
    if scope is None or max_norm is not None or not of_input(input):
        tr.refuse("an embedding of indices that are no input, of a weight that an input makes, or with max_norm")
    if not tr.is_index(input):
        tr.refuse("an embedding of indices that are computed")
    x, width = tr.ref(input), weight.shape[1]
    made = tr.node("embedding", [x], scope, num_embeddings=weight.shape[0], embedding_dim=width)
    return reshaped(tr, made, tr.indices[x] + (width,), tuple(input.shape) + (width,))


@rule("one_hot")
def one_hot(tr, input, num_classes=-1):
    if num_classes < 1:
        tr.refuse("F.one_hot without num_classes")
    return embedding(tr, input, torch.eye(num_classes))


@rule("torch_embedding")
def torch_embedding(tr, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return embedding(tr, indices, weight)


def norm(tr, layer, input, weight, bias, along, switch="affine", statistics=(), **options):
    """A norm whose weight and bias, which lie along the axes `along`, may be parameters or values, both or one of them."""
    if weight is not None and bias is None and switch == "affine":
        bias = torch.zeros_like(plain(weight))
    if weight is None and bias is not None:
        weight = torch.ones_like(plain(bias))
    given = dict(zip(("running_mean", "running_var"), statistics))
    values = of_input(weight) or of_input(bias)
    scope = scope_of(tr, **given) if values else scope_of(tr, weight=weight, bias=bias, **given)
    if statistics and scope is None:
        tr.refuse("a norm whose running statistics an input makes")
    if statistics:
        tr.store((scope + "." if scope else "") + "num_batches_tracked", torch.zeros((), dtype=torch.int64))
    options[switch] = weight is not None and not values
    if switch != "affine":
        options["bias"] = bias is not None
    made = tr.node(layer, [tr.ref(input)], scope, **options)
    if values:
        shape = [input.shape[i] if i in along else 1 for i in range(input.dim())]
        made = tr.node("mul", [made, reshaped(tr, tr.ref(weight), weight.shape, shape)])
        if bias is not None:
            made = tr.node("add", [made, reshaped(tr, tr.ref(bias), bias.shape, shape)])
    return made


def affine_of_channels(tr, x, input, weight, bias):
    for layer, operand in (("mul", weight), ("add", bias)):
        if operand is not None:
            shape = (1, -1) + (1,) * (input.dim() - 2)
            x = tr.node(layer, [x, tr.node("reshape", [tr.ref(operand)], shape=shape)])
    return x


@rule("batch_norm")
def batch_norm(tr, input, running_mean=None, running_var=None, weight=None, bias=None, training=False, momentum=0.1,
               eps=1e-5, cudnn_enabled=False):
    if running_mean is None or training:
        axes = tuple(axis for axis in range(input.dim()) if axis != 1)
        x = tr.ref(input)
        centred = tr.node("sub", [x, tr.node("mean", [x], axes=axes, keepdim=True)])
        squares = tr.node("mean", [tr.node("square", [centred])], axes=axes, keepdim=True)
        root = tr.node("sqrt", [tr.node("add", [squares, tr.node("full_like", [squares], number=float(eps))])])
        return affine_of_channels(tr, tr.node("div", [centred, root]), input, weight, bias)
    return norm(tr, "batch_norm2d" if input.dim() == 4 else "batch_norm1d", input, weight, bias, (1,),
                statistics=(running_mean, running_var), eps=float(eps))


@rule("instance_norm")
def instance_norm(tr, input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5, cudnn_enabled=False):
    return norm(tr, "instance_norm2d" if input.dim() == 4 else "instance_norm1d", input, weight, bias, (1,),
                statistics=() if use_input_stats else (running_mean, running_var), eps=float(eps),
                track_running_stats=not use_input_stats)


@rule("torch_batch_norm")
def torch_batch_norm(tr, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    return batch_norm(tr, input, running_mean, running_var, weight, bias, training, momentum, eps)


@rule("torch_instance_norm")
def torch_instance_norm(tr, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps,
                        cudnn_enabled):
    return instance_norm(tr, input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@rule("group_norm")
def group_norm(tr, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=False):
    return norm(tr, "group_norm", input, weight, bias, (1,), groups=num_groups, eps=float(eps))


@rule("layer_norm")
def layer_norm(tr, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enabled=False):
    axes = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    return norm(tr, "layer_norm", input, weight, bias, axes, "elementwise_affine", axes=len(axes), eps=float(eps))


@rule("rms_norm")
def rms_norm(tr, input, normalized_shape, weight=None, eps=None):
    x, axes = tr.ref(input), tuple(range(input.dim() - len(normalized_shape), input.dim()))
    squares = tr.node("mean", [tr.node("square", [x])], axes=axes, keepdim=True)
    eps = torch.finfo(input.dtype).eps if eps is None else float(eps)
    made = tr.node("div", [x, tr.node("sqrt", [tr.node("add", [squares, tr.node("full_like", [squares], number=eps)])])])
    return made if weight is None else tr.node("mul", [made, tr.ref(weight)])


# Functions of one value, whose other arguments (inplace) do not matter.
for _name, _layer in {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "selu": "selu", "silu": "silu", "mish": "mish",
                      "softsign": "softsign", "logsigmoid": "log_sigmoid", "log_sigmoid": "log_sigmoid", "relu6": "relu6",
                      "hardsigmoid": "hardsigmoid", "hardswish": "hardswish", "abs": "abs", "neg": "neg",
                      "square": "square", "exp": "exp", "log": "log", "sqrt": "sqrt"}.items():
    RULES[_name] = (lambda layer: lambda tr, input, inplace=False: tr.node(layer, [tr.ref(input)]))(_layer)


@rule("leaky_relu")
def leaky_relu(tr, input, negative_slope=0.01, inplace=False):
    return tr.node("leaky_relu", [tr.ref(input)], negative_slope=float(negative_slope))


@rule("elu")
def elu(tr, input, alpha=1.0, scale=1, input_scale=1, inplace=False):
    return tr.node("elu", [tr.ref(input)], alpha=float(alpha))


@rule("gelu")
def gelu(tr, input, approximate="none"):
    return tr.node("gelu_tanh" if approximate == "tanh" else "gelu", [tr.ref(input)])


@rule("softplus")
def softplus(tr, input, beta=1, threshold=20):
    if threshold != 20:
        tr.refuse(f"Softplus with a threshold of {threshold}; unfurl's is 20")
    return tr.node("softplus", [tr.ref(input)], beta=float(beta))


@rule("hardtanh")
def hardtanh(tr, input, min_val=-1.0, max_val=1.0, inplace=False):
    return tr.node("hardtanh", [tr.ref(input)], minimum=float(min_val), maximum=float(max_val))


@rule("clamp")
def clamp(tr, input, min=None, max=None):
    if number_of(min) is None and min is not None or number_of(max) is None and max is not None:
        tr.refuse("torch.clamp with tensors")
    return tr.node("clamp", [tr.ref(input)], minimum=float("-inf") if min is None else float(min),
                   maximum=float("inf") if max is None else float(max))


@rule("celu")
def celu(tr, input, alpha=1.0, inplace=False):
    x = tr.ref(input) if alpha == 1 else tr.node("scale", [tr.ref(input)], factor=1.0 / alpha)
    x = tr.node("elu", [x], alpha=1.0)
    return x if alpha == 1 else tr.node("scale", [x], factor=float(alpha))


@rule("rrelu")
def rrelu(tr, input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False, generator=None):
    return leaky_relu(tr, input, (lower + upper) / 2)


@rule("softshrink")
def softshrink(tr, input, lambd=0.5):
    x = tr.ref(input)
    return tr.node("sub", [x, tr.node("clamp", [x], minimum=-float(lambd), maximum=float(lambd))])


@rule("threshold", "_threshold")
def threshold(tr, input, threshold, value, inplace=False):
    if threshold != value:
        tr.refuse("torch.threshold whose value is another number than its threshold")
    return clamp(tr, input, value)


@rule("clamp_min")
def clamp_min(tr, input, min):
    return clamp(tr, input, min)


@rule("clamp_max")
def clamp_max(tr, input, max):
    return clamp(tr, input, None, max)


@rule("prelu")
def prelu(tr, input, weight):
    scope = scope_of(tr, weight=weight)
    if scope is None:
        tr.refuse("a PReLU whose weight an input makes")
    return tr.node("prelu", [tr.ref(input)], scope, num_parameters=weight.numel())


@rule("softmax")
def softmax(tr, input, dim=None, _stacklevel=3, dtype=None):
    if dim is None:
        tr.refuse("a softmax without its dim")
    return tr.node("softmax", [tr.ref(input)], axis=dim)


@rule("pow")
def power(tr, input, exponent):
    if not isinstance(exponent, (int, float, np.number)) or not isinstance(input, torch.Tensor):
        tr.refuse("torch.pow whose exponent is no number")
    if exponent == 0:
        return tr.node("full_like", [tr.ref(input)], number=1.0)
    x = tr.ref(input)
    if exponent < 0:
        x, exponent = tr.node("div", [tr.node("full_like", [x], number=1.0), x]), -exponent
    if exponent == 0.5:
        return tr.node("sqrt", [x])
    if exponent != int(exponent) or exponent > 64:
        return tr.node("exp", [tr.node("scale", [tr.node("log", [x])], factor=float(exponent))])
    made, exponent = None, int(exponent)
    while exponent:  # by squaring
        if exponent % 2:
            made = x if made is None else tr.node("mul", [made, x])
        exponent //= 2
        x = tr.node("square", [x]) if exponent else x
    return made


@rule("rpow")
def rpow(tr, input, base):
    if not isinstance(base, (int, float, np.number)) or base <= 0:
        tr.refuse("a power whose base is no number above 0")
    return tr.node("exp", [tr.node("scale", [tr.ref(input)], factor=float(np.log(base)))])


for _name, _base in (("log2", 2.0), ("log10", 10.0)):
    RULES[_name] = (lambda base: lambda tr, input: tr.node(
        "scale", [tr.node("log", [tr.ref(input)])], factor=1.0 / float(np.log(base))))(_base)


@rule("rsqrt")
def rsqrt(tr, input):
    return power(tr, input, -0.5)


@rule("reciprocal")
def reciprocal(tr, input):
    return power(tr, input, -1)


# ---- arithmetic ----


def number_of(x):
    """A number of Python's or NumPy's, or a tensor of one that no input has made."""
    if isinstance(x, (int, float, np.number)):
        return float(x)
    if isinstance(x, torch.Tensor) and not isinstance(x, Traced) and x.dim() == 0:
        return float(x)
    return None


def arithmetic(tr, layer, a, b):
    """a OP b, of which one may be a number."""
    left, right = number_of(a), number_of(b)
    if right is not None and layer in ("mul", "div"):
        return tr.node("scale", [tr.ref(a)], factor=right if layer == "mul" else 1.0 / right)
    if left is not None and layer == "mul":
        return tr.node("scale", [tr.ref(b)], factor=left)
    if right is not None:
        x = tr.ref(a)
        return x if right == 0.0 else tr.node(layer, [x, tr.node("full_like", [x], number=right)])
    if left is not None:
        x = tr.ref(b)
        if left == 0.0 and layer == "add":
            return x
        return tr.node(layer, [tr.node("full_like", [x], number=left), x])
    for x in (a, b):
        if tr.is_index(x):
            tr.refuse(f"torch.{layer} of integers that come from an input")
    return tr.node(layer, [tr.ref(a), tr.ref(b)])


def scaled(tr, x, alpha):
    if alpha == 1:
        return x
    if not isinstance(x, torch.Tensor):
        return x * alpha
    return tr.wrap(plain(x) * alpha, tr.node("scale", [tr.ref(x)], factor=float(alpha)), fixed=not of_input(x))


@rule("add")
def add(tr, input, other, alpha=1):
    return arithmetic(tr, "add", input, scaled(tr, other, alpha))


@rule("radd")
def radd(tr, input, other):
    return arithmetic(tr, "add", other, input)


@rule("sub")
def sub(tr, input, other, alpha=1):
    return arithmetic(tr, "sub", input, scaled(tr, other, alpha))


@rule("rsub")
def rsub(tr, input, other, alpha=1):
    return arithmetic(tr, "sub", other, scaled(tr, input, alpha))


@rule("mul")
def mul(tr, input, other):
    return arithmetic(tr, "mul", input, other)


@rule("rmul")
def rmul(tr, input, other):
    return arithmetic(tr, "mul", other, input)


@rule("div")
def div(tr, input, other, rounding_mode=None):
    if rounding_mode is not None:
        tr.refuse("torch.div with a rounding_mode")
    return arithmetic(tr, "div", input, other)


@rule("rtruediv", "rdiv")
def rdiv(tr, input, other):
    return arithmetic(tr, "div", other, input)


@rule("addcmul")
def addcmul(tr, input, tensor1, tensor2, value=1):
    product = tr.node("mul", [tr.ref(tensor1), tr.ref(tensor2)])
    if value != 1:
        product = tr.node("scale", [product], factor=float(value))
    return tr.node("add", [tr.ref(input), product])


@rule("addcdiv")
def addcdiv(tr, input, tensor1, tensor2, value=1):
    quotient = tr.node("div", [tr.ref(tensor1), tr.ref(tensor2)])
    if value != 1:
        quotient = tr.node("scale", [quotient], factor=float(value))
    return tr.node("add", [tr.ref(input), quotient])


@rule("lerp")
def lerp(tr, input, end, weight):
    start = tr.ref(input)
    step = tr.node("sub", [tr.ref(end), start])
    factor = number_of(weight)
    step = tr.node("scale", [step], factor=factor) if factor is not None else tr.node("mul", [step, tr.ref(weight)])
    return tr.node("add", [start, step])


@rule("matmul")
def matmul(tr, input, other=None, mat2=None):
    other = other if other is not None else mat2
    a, b, shape = tr.ref(input), tr.ref(other), list(torch.matmul(plain(input), plain(other)).shape)
    if input.dim() == 1:
        a = tr.node("reshape", [a], shape=(1, -1))
    if other.dim() == 1:
        b = tr.node("reshape", [b], shape=(-1, 1))
    made = tr.node("matmul", [a, b])
    full = list(shape)
    if input.dim() == 1:
        full.insert(len(full) - (other.dim() > 1), 1)
    if other.dim() == 1:
        full.append(1)
    return reshaped(tr, made, full, shape)


@rule("rmatmul")
def rmatmul(tr, input, other):
    return matmul(tr, other, input)


@rule("baddbmm")
def baddbmm(tr, input, batch1, batch2, beta=1, alpha=1):
    product = tr.node("matmul", [tr.ref(batch1), tr.ref(batch2)])
    if alpha != 1:
        product = tr.node("scale", [product], factor=float(alpha))
    if beta == 0:
        return product
    start = tr.ref(input) if beta == 1 else tr.node("scale", [tr.ref(input)], factor=float(beta))
    return tr.node("add", [start, product])


@rule("scaled_dot_product_attention")
def attention(tr, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa or dropout_p:
        tr.refuse("attention with enable_gqa or dropout")
    axes = tuple(range(key.dim() - 2)) + (key.dim() - 1, key.dim() - 2)
    weights = tr.node("matmul", [tr.ref(query), tr.node("permute", [tr.ref(key)], axes=axes)])
    weights = tr.node("scale", [weights], factor=float(scale or query.shape[-1] ** -0.5))
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None:
        if not attn_mask.is_floating_point():
            if of_input(attn_mask):
                tr.refuse("attention with a mask of true and false that an input makes")
            attn_mask = torch.zeros(attn_mask.shape).masked_fill(~plain(attn_mask), float("-inf"))
        weights = tr.node("add", [weights, tr.ref(attn_mask)])
    return tr.node("matmul", [tr.node("softmax", [weights], axis=-1), tr.ref(value)])


def letters_of(tr, equation, operands):
    """([letters of each operand], letters of the result) of an equation. '...' becomes capital letters."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    ranks = [x.dim() - len(part.replace("...", "")) if "..." in part else 0 for part, x in zip(left.split(","), operands)]
    rest = "ZYXWVUTS"[:max(ranks)]
    if rest and (set(rest) & set(equation) or not arrow):
        tr.refuse(f"torch.einsum of {equation!r}")
    left = ",".join(part.replace("...", rest[len(rest) - n:]) for part, n in zip(left.split(","), ranks))
    right = right.replace("...", rest)
    parts = left.split(",")
    if not arrow:
        right = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    if any(len(set(part)) != len(part) for part in parts) or len(parts) != len(operands):
        tr.refuse(f"torch.einsum of {equation!r}: an operand has a letter twice")
    return parts, right


@rule("einsum")
def einsum(tr, equation, *operands):
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    parts, result = letters_of(tr, equation, operands)
    extent = {letter: n for part, x in zip(parts, operands) for letter, n in zip(part, x.shape)}
    x, have = tr.ref(operands[0]), parts[0]
    for i in range(len(operands)):
        later = set(result).union(*map(set, parts[i + 1:] if i else parts[1:]))
        if i == 0:
            x, have = summed(tr, x, have, later)
            continue
        y, other = summed(tr, tr.ref(operands[i]), parts[i], later | set(have))
        batch = [letter for letter in have if letter in other and letter in later]
        inner = [letter for letter in have if letter in other and letter not in later]
        mine = [letter for letter in have if letter not in other]
        theirs = [letter for letter in other if letter not in have]
        a = grouped(tr, x, have, [batch, mine, inner], extent)
        b = grouped(tr, y, other, [batch, inner, theirs], extent)
        x, have = tr.node("matmul", [a, b]), "".join(batch + mine + theirs)
        x = reshaped(tr, x, [int(np.prod([extent[letter] for letter in group])) for group in (batch, mine, theirs)],
                     [extent[letter] for letter in have])
    x, have = summed(tr, x, have, set(result))
    return turned_to(tr, x, have, result)


def summed(tr, x, have, keep):
    """Without the letters that nobody needs."""
    axes = tuple(i for i, letter in enumerate(have) if letter not in keep)
    if axes:
        x = tr.node("sum", [x], axes=axes, keepdim=False)
    return x, "".join(letter for letter in have if letter in keep)


def turned_to(tr, x, have, want):
    axes = tuple(have.index(letter) for letter in want)
    return x if axes == tuple(range(len(axes))) else tr.node("permute", [x], axes=axes)


def grouped(tr, x, have, groups, extent):
    """One axis for each of the three groups of letters."""
    x = turned_to(tr, x, have, "".join(letter for group in groups for letter in group))
    before = [extent[letter] for group in groups for letter in group]
    return reshaped(tr, x, before, [int(np.prod([extent[letter] for letter in group])) for group in groups])


# ---- sums ----


def axes_of(dim, rank):
    if dim is None or dim == ():
        return ()
    return tuple(positive(axis, rank) for axis in (dim if isinstance(dim, (tuple, list)) else (dim,)))


@rule("sum")
def total(tr, input, dim=None, keepdim=False, dtype=None):
    return tr.node("sum", [tr.ref(input)], axes=axes_of(dim, input.dim()), keepdim=keepdim)


@rule("mean")
def mean(tr, input, dim=None, keepdim=False, dtype=None):
    return tr.node("mean", [tr.ref(input)], axes=axes_of(dim, input.dim()), keepdim=keepdim)


def variance(tr, input, dim, correction, keepdim):
    x, axes = tr.ref(input), axes_of(dim, input.dim())
    count = 1
    for axis in axes or range(input.dim()):
        count *= input.shape[axis]
    centred = tr.node("sub", [x, tr.node("mean", [x], axes=axes, keepdim=True)])
    made = tr.node("mean", [tr.node("square", [centred])], axes=axes, keepdim=keepdim)
    return made if correction == 0 else tr.node("scale", [made], factor=count / (count - correction))


def correction_of(args, unbiased, correction):
    if correction is not None:
        return correction
    return 1 if (args[0] if args else unbiased) else 0


@rule("var")
def var(tr, input, dim=None, *args, unbiased=True, keepdim=False, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return variance(tr, input, dim, correction_of(args, unbiased, correction), args[1] if len(args) > 1 else keepdim)


@rule("std")
def std(tr, input, dim=None, *args, unbiased=True, keepdim=False, correction=None):
    return tr.node("sqrt", [var(tr, input, dim, *args, unbiased=unbiased, keepdim=keepdim, correction=correction)])


RULES["var_mean"] = lambda tr, input, *args, **kwargs: [var(tr, input, *args, **kwargs), mean_as(tr, input, args, kwargs)]
RULES["std_mean"] = lambda tr, input, *args, **kwargs: [std(tr, input, *args, **kwargs), mean_as(tr, input, args, kwargs)]


def mean_as(tr, input, args, kwargs):
    """The mean with the axes of a variance's arguments."""
    dim = kwargs.get("dim", args[0] if args and not isinstance(args[0], bool) else None)
    return mean(tr, input, dim, kwargs.get("keepdim", args[2] if len(args) > 2 else False))


@rule("norm")
def vector_norm(tr, input, p="fro", dim=None, keepdim=False, dtype=None, ord="fro", out=None):
    p = p if p not in ("fro", None) else ord
    axes = axes_of(dim, input.dim())
    x = tr.ref(input)
    if p in ("fro", None, 2):
        return tr.node("sqrt", [tr.node("sum", [tr.node("square", [x])], axes=axes, keepdim=keepdim)])
    if p == 1:
        return tr.node("sum", [tr.node("abs", [x])], axes=axes, keepdim=keepdim)
    tr.refuse(f"a norm of order {p}")
    return None


def linalg_norm(tr, input, ord=None, dim=None, keepdim=False, dtype=None, out=None):
    if ord is not None and (dim is None and input.dim() == 2 or isinstance(dim, (tuple, list)) and len(dim) == 2):
        tr.refuse(f"a norm of matrices, of order {ord}")
    return vector_norm(tr, input, ord, dim, keepdim)


RULES["linalg_norm"] = linalg_norm
RULES["linalg_vector_norm"] = lambda tr, x, ord=2, dim=None, keepdim=False, dtype=None, out=None: vector_norm(
    tr, x, ord, dim, keepdim)


@rule("cumsum")
def cumsum(tr, input, dim, dtype=None):
    axis, last = positive(dim, input.dim()), input.dim() - 1
    x = transpose(tr, input, axis, last) if axis != last else tr.ref(input)
    n = input.shape[axis]
    if input.dim() == 1:
        x = tr.node("reshape", [x], shape=(1, n))
    x = tr.node("matmul", [x, tr.constant(torch.ones(n, n).triu())])
    if input.dim() == 1:
        return tr.node("reshape", [x], shape=(n,))
    return tr.node("permute", [x], axes=swap(input.dim(), axis, last)) if axis != last else x


def swap(rank, a, b):
    axes = list(range(rank))
    axes[a], axes[b] = axes[b], axes[a]
    return tuple(axes)


# ---- maxima ----


def extreme(tr, input, dim, keepdim, sign):
    """The maximum over axes, or with a sign of -1 the minimum: max pooling with a window as large as they are."""
    x, shape, axes = tr.ref(input), list(input.shape), axes_of(dim, input.dim()) or tuple(range(input.dim()))
    if sign < 0:
        x = tr.node("neg", [x])
    if len(shape) == 4 and set(axes) <= {2, 3}:
        sides = tuple(shape[i] if i in axes else 1 for i in (2, 3))
        x = tr.node("max_pool2d", [x], **window(sides, None, 0, False))
        axes_left = ()
    elif len(shape) == 4 and len(axes) == 1:
        order = swap(4, axes[0], 3)
        x = tr.node("max_pool2d", [tr.node("permute", [x], axes=order)], **window((1, shape[axes[0]]), None, 0, False))
        x, axes_left = tr.node("permute", [x], axes=order), ()
    else:
        axes_left = axes
    kept = [1 if i in axes else n for i, n in enumerate(shape)]
    for axis in axes_left:
        outer, inner = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1:]))
        x = reshaped(tr, x, shape, (outer, 1, shape[axis], inner))
        x = tr.node("max_pool2d", [x], **window((shape[axis], 1), None, 0, False))
        shape[axis] = 1
        x = reshaped(tr, x, (outer, 1, 1, inner), shape)
    x = x if keepdim else reshaped(tr, x, kept, [n for i, n in enumerate(kept) if i not in axes])
    return tr.node("neg", [x]) if sign < 0 else x


def of_two(tr, a, b, sign):
    """The larger of two: a + relu(b - a); the smaller: a - relu(a - b)."""
    first, second = (tr.ref(b), tr.ref(a)) if sign > 0 else (tr.ref(a), tr.ref(b))
    more = tr.node("relu", [tr.node("sub", [first, second])])
    return tr.node("add" if sign > 0 else "sub", [tr.ref(a), more])


def extreme_rule(name, sign):
    def apply(tr, input, dim=None, keepdim=False, other=None):
        other = dim if isinstance(dim, torch.Tensor) else other
        if other is not None:
            return of_two(tr, input, other, sign)
        made = extreme(tr, input, dim, keepdim, sign)
        return made if dim is None else [made, Unknown(f"the index of torch.{name}")]
    return apply


for _name, _sign in (("max", 1), ("min", -1)):
    RULES[_name] = extreme_rule(_name, _sign)
    RULES[f"{_name}imum"] = (lambda sign: lambda tr, input, other: of_two(tr, input, other, sign))(_sign)
    RULES[f"a{_name}"] = (lambda sign: lambda tr, input, dim=(), keepdim=False: extreme(
        tr, input, dim, keepdim, sign))(_sign)


@rule("logsumexp")
def logsumexp(tr, input, dim, keepdim=False):
    axes = axes_of(dim, input.dim())
    top = extreme(tr, input, dim, True, 1)
    made = tr.node("sum", [tr.node("exp", [tr.node("sub", [tr.ref(input), top])])], axes=axes, keepdim=True)
    made = tr.node("add", [tr.node("log", [made]), top])
    kept = [1 if i in axes else n for i, n in enumerate(input.shape)]
    return made if keepdim else reshaped(tr, made, kept, [n for i, n in enumerate(kept) if i not in axes])


@rule("log_softmax")
def log_softmax(tr, input, dim=None, _stacklevel=3, dtype=None):
    if dim is None:
        tr.refuse("a softmax without its dim")
    return tr.node("sub", [tr.ref(input), logsumexp(tr, input, dim, True)])


# ---- choices that no input makes ----


@rule("masked_fill")
def masked_fill(tr, input, mask, value):
    if of_input(mask) or of_input(value):
        tr.refuse("torch.masked_fill whose mask an input makes")
    mask = plain(mask)
    keep = tr.node("mul", [tr.ref(input), tr.constant((~mask).to(torch.get_default_dtype()))])
    fill = torch.zeros(mask.shape).masked_fill(mask, plain(value) if isinstance(value, torch.Tensor) else float(value))
    return tr.node("add", [keep, tr.constant(fill)])


@rule("where")
def where(tr, condition, input=None, other=None):
    if input is None or of_input(condition):
        tr.refuse("torch.where of a condition that an input makes")
    made = None
    for mask, x in ((plain(condition), input), (~plain(condition), other)):
        if of_input(x):
            part = tr.node("mul", [tr.ref(x), tr.constant(mask.to(torch.get_default_dtype()))])
        else:
            x = plain(x) if isinstance(x, torch.Tensor) else torch.tensor(float(x))
            part = tr.constant(torch.where(mask, x.to(torch.get_default_dtype()), torch.zeros(())))
        made = part if made is None else tr.node("add", [made, part])
    return made


@rule("normalize")
def normalize(tr, input, p=2.0, dim=1, eps=1e-12, out=None):
    if p != 2.0:
        tr.refuse("F.normalize by another norm than 2")
    x = tr.ref(input)
    norm = tr.node("sqrt", [tr.node("sum", [tr.node("square", [x])], axes=axes_of(dim, input.dim()), keepdim=True)])
    return tr.node("div", [x, tr.node("clamp", [norm], minimum=float(eps), maximum=float("inf"))])


# ---- shapes ----


def reshaped(tr, x, before, after):
    """The value `x` of shape `before` under the shape `after`."""
    before, after = tuple(before), tuple(after)
    if before == after:
        return x
    merged = len(before) - len(after)
    for start in range(len(after)):
        if merged > 0 and before[:start] == after[:start] and before[start + merged + 1:] == after[start + 1:]:
            return tr.node("flatten", [x], start=start, end=start + merged)
    made = tr.node("reshape", [x], shape=after)
    tr.nodes[-1].before = before
    return made


def shaped(*names):
    """A rule of a function that only reshapes: torch itself says to which shape."""
    for name in names:
        VIEWS_OF_INTEGERS.add(name)

        def apply(tr, input, *args, _name=name, **kwargs):
            if tr.is_index(input):
                return tr.ref(input)
            out = getattr(torch.Tensor, _name)(plain(input), *plain(args), **plain(kwargs))
            return reshaped(tr, tr.ref(input), input.shape, out.shape)
        RULES[name] = apply


shaped("reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as", "ravel")


@rule("permute")
def permute(tr, input, *dims, **kwargs):
    dims = kwargs.get("dims", dims[0] if dims and isinstance(dims[0], (tuple, list)) else dims)
    axes = tuple(positive(axis, input.dim()) for axis in dims)
    return tr.node("permute", [tr.ref(input)], axes=axes) if axes != tuple(range(input.dim())) else tr.ref(input)


@rule("transpose")
def transpose(tr, input, dim0, dim1):
    axes = list(range(input.dim()))
    a, b = positive(dim0, input.dim()), positive(dim1, input.dim())
    axes[a], axes[b] = axes[b], axes[a]
    return permute(tr, input, axes)


@rule("t", "T", "mT")
def turned(tr, input):
    return transpose(tr, input, -2, -1) if input.dim() == 2 or input.dim() > 2 else tr.ref(input)


@rule("movedim")
def movedim(tr, input, source, destination):
    order = torch.empty(tuple(range(1, input.dim() + 1))).movedim(source, destination).shape
    return permute(tr, input, [extent - 1 for extent in order])


# Between types of real numbers nothing happens: a program has one type.
CASTS = ("float", "double", "half", "bfloat16", "type", "type_as", "to", "_to_copy", "long", "int")


def cast_rule(name):
    def apply(tr, input, *args, **kwargs):
        cast = getattr(torch.Tensor, name, torch.Tensor.to)  # _to_copy is an operator alone
        after = cast(plain(input), *plain(args), **plain(kwargs))
        if after.is_floating_point() and tr.is_index(input):
            tr.refuse("indices that become real numbers")
        if input.is_floating_point() and not after.is_floating_point():
            tr.refuse(f"torch.{name} makes integers of real numbers")
        return tr.ref(input)
    return apply


for _name in CASTS:
    RULES[_name] = cast_rule(_name)


@rule("contiguous", "clone", "detach", "data", "cpu", "cuda", "alias",
      "dropout", "dropout2d", "dropout1d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "positive", "real")
def same(tr, input, *args, **kwargs):
    return tr.ref(input)


def sliced(tr, x, axis, start, stop, extent, written=None):
    """Indices start to stop - 1. `written`: a slice whose negative ends are kept, since the extent may vary."""
    if start == 0 and stop == extent:
        return x
    if stop <= start:
        tr.refuse(f"a slice that is empty: {start} to {stop} of {extent}")
    if written is not None:
        start = written.start if written.start is not None and -extent <= written.start < 0 else start
        stop = written.stop if written.stop is not None and -extent <= written.stop < 0 else stop
    options = {"axis": axis}
    if start != 0:
        options["start"] = start
    if stop != extent:
        options["stop"] = stop
    return tr.node("slice", [x], **options)


def stepped(tr, x, axis, step, shape):
    """Every `step`-th index: pooling with a window of one element."""
    after = list(shape)
    after[axis] = (shape[axis] + step - 1) // step
    if len(shape) == 4 and axis >= 2:
        return tr.node("max_pool2d", [x], kernel=(1, 1), stride=(step, 1) if axis == 2 else (1, step))
    outer, inner = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1:]))
    x = reshaped(tr, x, shape, (outer, 1, shape[axis], inner))
    x = tr.node("max_pool2d", [x], kernel=(1, 1), stride=(step, 1))
    return reshaped(tr, x, (outer, 1, after[axis], inner), after)


def gathered(tr, x, axis, indices, shape):
    """The elements with these indices of an axis, one after the other: slices of those that follow each other."""
    runs = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1][1] += 1
        else:
            runs.append([index, index + 1])
    if not runs or len(runs) > 512:
        tr.refuse(f"a choice of {len(indices)} indices in {len(runs)} pieces; 1 to 512 pieces are taken")
    return joined(tr, [sliced(tr, x, axis, start, stop, shape[axis]) for start, stop in runs], axis, len(shape))


def index_list(item, extent):
    """The indices of a list or of a tensor that no input makes; None of anything else."""
    if isinstance(item, (list, range)) and all(isinstance(i, int) and not isinstance(i, bool) for i in item):
        return [positive(i, extent) for i in item]
    if not isinstance(item, torch.Tensor) or of_input(item) or item.is_floating_point() or item.dim() != 1:
        return None
    found = plain(item).nonzero()[:, 0] if item.dtype == torch.bool else plain(item)
    return [positive(i, extent) for i in found.tolist()]


def is_plain_index(item):
    return item is None or item is Ellipsis or isinstance(item, slice) or (
        isinstance(item, int) and not isinstance(item, bool))


@rule("__getitem__")
def getitem(tr, input, index):
    x, shape, axis = tr.ref(input), list(input.shape), 0
    index = list(index) if isinstance(index, tuple) else [index]
    if sum(not is_plain_index(item) for item in index) > 1:
        tr.refuse("an index of more than one tensor or list")
    if not any(item is Ellipsis for item in index):
        index.append(Ellipsis)
    rest = input.dim() - sum(item is not None and item is not Ellipsis for item in index)
    after = []
    for item in index:
        if item is None:
            after.append(1)
        elif item is Ellipsis:
            after += shape[axis:axis + rest]
            axis += rest
        elif isinstance(item, slice):
            start, stop, step = item.indices(shape[axis])
            x = sliced(tr, x, axis, start, stop, shape[axis], item)
            shape[axis] = stop - start
            if step != 1:
                x = stepped(tr, x, axis, step, shape)
                shape[axis] = (shape[axis] + step - 1) // step
            after.append(shape[axis])
            axis += 1
        elif isinstance(item, int):
            start = positive(item, shape[axis])
            written = slice(item, item + 1 if item < -1 else None) if item < 0 else None
            x = tr.node("slice", [x], axis=axis, start=item) if item == -1 and shape[axis] > 1 else sliced(
                tr, x, axis, start, start + 1, shape[axis], written)
            shape[axis] = 1
            axis += 1
        else:
            indices = index_list(item, shape[axis])
            if indices is None:
                tr.refuse("an index that is a tensor of more than one axis, or one that an input makes")
            if any(isinstance(other, int) for other in index):
                tr.refuse("an index of a list beside a number")
            x = gathered(tr, x, axis, indices, shape)
            shape[axis] = len(indices)
            after.append(shape[axis])
            axis += 1
    return reshaped(tr, x, shape, after)


def region_of(tr, shape, index):
    """[(start, stop, step)] of each axis, of an index of numbers and slices."""
    index = list(index) if isinstance(index, tuple) else [index]
    if not all(is_plain_index(item) and item is not None for item in index):
        tr.refuse("assignment to a part of a tensor by another index than numbers and slices")
    at = next((i for i, item in enumerate(index) if item is Ellipsis), len(index))
    index[at:at + 1] = [slice(None)] * (len(shape) - len(index) + (at < len(index)))
    return [item.indices(extent) if isinstance(item, slice) else (positive(item, extent), positive(item, extent) + 1, 1)
            for item, extent in zip(index, shape)]


def assigned(tr, value, before, shape, region):
    """The value, which `before` is the shape of, at its region among zeros."""
    counts = [len(range(*part)) for part in region]
    x = reshaped(tr, expanded(tr, value, before), before, counts)
    for axis, (start, _, step) in enumerate(region):
        outer, inner = int(np.prod(counts[:axis])), int(np.prod(counts[axis + 1:]))
        if step > 1 and counts[axis] > 1:
            x = reshaped(tr, x, counts, (outer * counts[axis], 1, 1, inner))
            x = tr.node("pad2d", [x], mode="zero", left=0, right=0, top=0, bottom=step - 1)
            after = counts[:axis] + [counts[axis] * step] + counts[axis + 1:]
            x = reshaped(tr, x, (outer * counts[axis], 1, step, inner), after)
            counts = after
        stop = min(counts[axis], shape[axis] - start)
        x = sliced(tr, x, axis, 0, stop, counts[axis])
        counts[axis] = stop
        if (start, stop) != (0, shape[axis]):
            x = with_border(tr, x, counts, [(axis, start, shape[axis] - start - stop)], "zero")
            counts[axis] = shape[axis]
    return x


@rule("index_select")
def index_select(tr, input, dim, index):
    return getitem(tr, input, (slice(None),) * positive(dim, input.dim()) + (index,))


@rule("flip")
def flip(tr, input, *dims):
    x, shape = tr.ref(input), list(input.shape)
    for axis in axes_of(dims[0] if len(dims) == 1 else dims, input.dim()):
        x = gathered(tr, x, axis, range(shape[axis] - 1, -1, -1), shape)
    return x


@rule("roll")
def roll(tr, input, shifts, dims=None):
    if dims is None or dims == ():
        tr.refuse("torch.roll without its dims")
    x, shape = tr.ref(input), list(input.shape)
    for shift, axis in zip(pair(shifts, 1), axes_of(dims, input.dim())):
        at = -shift % shape[axis]
        x = gathered(tr, x, axis, [*range(at, shape[axis]), *range(at)], shape)
    return x


@rule("repeat_interleave")
def repeat_interleave(tr, input, repeats, dim=None, output_size=None):
    if dim is None or not isinstance(repeats, int):
        tr.refuse("torch.repeat_interleave without dim, or of a number for each element")
    axis, shape = positive(dim, input.dim()), list(input.shape)
    x = tr.ref(input)
    if input.dim() == 4 and axis >= 2:
        return tr.node("upsample_nearest", [x], scale=(float(repeats), 1.0) if axis == 2 else (1.0, float(repeats)))
    x = reshaped(tr, x, shape, shape[:axis + 1] + [1] + shape[axis + 1:])
    x = joined(tr, [x] * repeats, axis + 1, len(shape) + 1)
    return reshaped(tr, x, shape[:axis + 1] + [repeats] + shape[axis + 1:],
                    shape[:axis] + [shape[axis] * repeats] + shape[axis + 1:])


@rule("channel_shuffle")
def channel_shuffle(tr, input, groups):
    n, c, *rest = input.shape
    x = reshaped(tr, tr.ref(input), input.shape, (n, groups, c // groups, int(np.prod(rest))))
    x = tr.node("permute", [x], axes=(0, 2, 1, 3))
    return reshaped(tr, x, (n, c // groups, groups, int(np.prod(rest))), input.shape)


@rule("select")
def select(tr, input, dim, index):
    return getitem(tr, input, (slice(None),) * positive(dim, input.dim()) + (index,))


@rule("narrow")
def narrow(tr, input, dim, start, length):
    axis = positive(dim, input.dim())
    return sliced(tr, tr.ref(input), axis, start, start + length, input.shape[axis])


def parts_of(tr, input, axis, extents):
    x, start, made = tr.ref(input), 0, []
    for extent in extents:
        made.append(sliced(tr, x, axis, start, start + extent, input.shape[axis]))
        start += extent
    return made


@rule("split", "split_with_sizes", "chunk", "tensor_split")
def split(tr, input, *args, **kwargs):
    raise TypeError


def split_rule(name):
    def apply(tr, input, *args, **kwargs):
        if "split_size_or_sections" in kwargs:
            args = (kwargs.pop("split_size_or_sections"), *args)
        parts = getattr(torch.Tensor, name)(plain(input), *args, **kwargs)
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        axis = positive(dim, input.dim())
        return parts_of(tr, input, axis, [part.shape[axis] for part in parts])
    return apply


for _name in ("split", "split_with_sizes", "chunk", "tensor_split"):
    RULES[_name] = split_rule(_name)


@rule("unbind", "__iter__")
def unbind(tr, input, dim=0):
    axis = positive(dim, input.dim())
    shape = list(input.shape)
    after = shape[:axis] + shape[axis + 1:]
    one = shape[:axis] + [1] + shape[axis + 1:]
    return [reshaped(tr, part, one, after) for part in parts_of(tr, input, axis, [1] * shape[axis])]


def joined(tr, values, axis, rank):
    """Any number of values side by side: a layer takes 8."""
    while len(values) > 1:
        made = []
        for i in range(0, len(values), MAX_INPUTS):
            group = values[i:i + MAX_INPUTS]
            if len(group) == 1:
                made += group
            elif axis == 1 and 2 <= rank <= 4:
                made.append(tr.node("concat", group))
            else:
                made.append(tr.node("concat_axis", group, axis=axis))
        values = made
    return values[0]


@rule("cat")
def cat(tr, tensors, dim=0):
    tensors = [x for x in tensors if x.numel() > 0]
    axis = positive(dim, tensors[0].dim())
    return joined(tr, [tr.ref(x) for x in tensors], axis, tensors[0].dim())


@rule("hstack")
def hstack(tr, tensors):
    return cat(tr, tensors, 1 if tensors[0].dim() > 1 else 0)


@rule("stack")
def stack(tr, tensors, dim=0):
    axis = positive(dim, tensors[0].dim() + 1)
    shape = list(tensors[0].shape)
    one = shape[:axis] + [1] + shape[axis:]
    return joined(tr, [reshaped(tr, tr.ref(x), shape, one) for x in tensors], axis, len(one))


@rule("glu")
def glu(tr, input, dim=-1):
    axis = positive(dim, input.dim())
    a, b = parts_of(tr, input, axis, [input.shape[axis] // 2] * 2)
    return tr.node("mul", [a, tr.node("sigmoid", [b])])


def as_often(tr, x, count, rank):
    """`x`, whose first extent is 1, `count` times: as often as the batch has rows, where they are as many. The run with
    another batch tells whether that was meant."""
    _, tensor = tr.first
    if count != tensor.shape[0] or not tensor.is_floating_point():
        return None
    row = tr.ref(tensor)
    for axis in range(1, tensor.dim()):
        row = sliced(tr, row, axis, 0, 1, tensor.shape[axis])
    row = reshaped(tr, row, (count,) + (1,) * (tensor.dim() - 1), (count,) + (1,) * (rank - 1))
    return tr.node("add", [x, tr.node("full_like", [row], number=0.0)])


def expanded(tr, input, after):
    after = list(after)
    before = [1] * (len(after) - input.dim()) + list(input.shape)
    after = [b if a == -1 else a for a, b in zip(after, before)]
    x = reshaped(tr, tr.ref(input), input.shape, before)
    if before and before[0] == 1 and after[0] > 1:
        batch = as_often(tr, x, after[0], len(after))
        x, before[0] = (x, 1) if batch is None else (batch, after[0])
    if before == after:
        return x
    if len(after) == 4 and before[:2] == after[:2] and before[2:] == [1, 1]:
        return tr.node("upsample_nearest", [x], size=tuple(after[2:]))
    zeros = torch.zeros([a if a != b else 1 for a, b in zip(after, before)])
    return tr.node("add", [x, tr.constant(zeros)])


def sizes_of(sizes, kwargs):
    sizes = kwargs.get("size", kwargs.get("repeats", sizes))
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


@rule("expand")
def expand(tr, input, *sizes, **kwargs):
    return expanded(tr, input, sizes_of(sizes, kwargs))


@rule("broadcast_to")
def broadcast_to(tr, input, size):
    return expanded(tr, input, size)


@rule("broadcast_tensors")
def broadcast_tensors(tr, *tensors):
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape = torch.broadcast_shapes(*[x.shape for x in tensors])
    return [expanded(tr, x, shape) for x in tensors]


@rule("expand_as")
def expand_as(tr, input, other):
    return expanded(tr, input, other.shape)


@rule("repeat", "tile")
def repeat(tr, input, *sizes, **kwargs):
    times = list(sizes_of(sizes, kwargs))
    times = [1] * (input.dim() - len(times)) + times
    shape = [1] * (len(times) - input.dim()) + list(input.shape)
    x = reshaped(tr, tr.ref(input), input.shape, shape)
    for axis, count in enumerate(times):
        if count > 1:
            batch = as_often(tr, x, count, len(times)) if axis == 0 and shape[0] == 1 else None
            x = joined(tr, [x] * count, axis, len(times)) if batch is None else batch
    return x


@rule("zeros_like")
def zeros_like(tr, input, **kwargs):
    return tr.node("full_like", [tr.ref(input)], number=0.0)


@rule("ones_like")
def ones_like(tr, input, **kwargs):
    return tr.node("full_like", [tr.ref(input)], number=1.0)


@rule("full_like")
def full_like(tr, input, fill_value, **kwargs):
    return tr.node("full_like", [tr.ref(input)], number=float(fill_value))


# ---- images ----


def as_image(tr, input):
    """The value of (N, C, L) or (N, C, H, W) as an image, and whether it had one axis."""
    if input.dim() not in (3, 4):
        tr.refuse(f"an image of shape {tuple(input.shape)}; (N, C, L) or (N, C, H, W) is needed")
    if input.dim() == 4:
        return tr.ref(input), False
    return reshaped(tr, tr.ref(input), input.shape, with_height(input.shape)), True


def as_line(tr, x, was_line):
    return tr.node("flatten", [x], start=2, end=3) if was_line else x


def padded(tr, input, pad, mode="zero", value=0.0):
    """`pad` in PyTorch's order, of zeros or of a number round any axes, else of one or two axes of an image."""
    x, shape = tr.ref(input), list(input.shape)
    amounts = [(input.dim() - 1 - i // 2, pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    for axis, low, high in amounts:  # of what is cut off first
        start, stop = max(-low, 0), shape[axis] - max(-high, 0)
        x = sliced(tr, x, axis, start, stop, shape[axis])
        shape[axis] = stop - start
    amounts = [(axis, max(low, 0), max(high, 0)) for axis, low, high in amounts if low > 0 or high > 0]
    if not amounts:
        return x
    if mode == "circular":
        for axis, low, high in amounts:
            parts = ([(shape[axis] - low, shape[axis])] if low else []) + [(0, shape[axis])] + ([(0, high)] if high else [])
            x = joined(tr, [sliced(tr, x, axis, a, b, shape[axis]) for a, b in parts], axis, len(shape))
            shape[axis] += low + high
        return x
    if mode != "zero" and (len(shape) not in (3, 4) or any(axis < 2 for axis, _, _ in amounts)):
        tr.refuse(f"padding with mode {mode!r} of {tuple(shape)}; (N, C, L) or (N, C, H, W) is needed")
    made = with_border(tr, x, shape, amounts, mode)
    if value != 0.0:  # value - value is 0 inside
        border = with_border(tr, tr.node("full_like", [x], number=-value), shape, amounts, mode)
        made = tr.node("add", [made, tr.node("add", [border, tr.node("full_like", [border], number=value)])])
    return made


def with_border(tr, x, shape, amounts, mode):
    """The value `x` of `shape` with [(axis, low, high)] more elements."""
    if len(shape) in (3, 4) and all(axis >= 2 for axis, _, _ in amounts):
        sides = {axis - len(shape): (low, high) for axis, low, high in amounts}
        (left, right), (top, bottom) = sides.get(-1, (0, 0)), sides.get(-2, (0, 0))
        was_line = len(shape) == 3
        if was_line:
            x = reshaped(tr, x, shape, with_height(shape))
        return as_line(tr, tr.node("pad2d", [x], mode=mode, left=left, right=right, top=top, bottom=bottom), was_line)
    shape = list(shape)
    for axis, low, high in amounts:  # each by itself, between the axes before and those behind it
        outer, inner = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1:]))
        x = reshaped(tr, x, shape, (outer, 1, shape[axis], inner))
        x = tr.node("pad2d", [x], mode=mode, left=0, right=0, top=low, bottom=high)
        shape[axis] += low + high
        x = reshaped(tr, x, (outer, 1, shape[axis], inner), shape)
    return x


@rule("pad")
def pad(tr, input, pad, mode="constant", value=None):
    modes = {"constant": "zero", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}
    value = float(value or 0.0) if mode == "constant" else 0.0
    if mode not in modes or value in (float("inf"), float("-inf")):
        tr.refuse(f"padding with mode {mode!r}, value {value} of {len(pad) // 2} axes")
    return padded(tr, input, list(pad), modes[mode], value)

@rule("interpolate")
def interpolate(tr, input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    axes = input.dim() - 2
    if size is None and recompute_scale_factor:
        size = [int(extent * factor) for extent, factor in zip(input.shape[2:], pair(scale_factor, axes))]
    size = None if size is None else tuple(int(extent) for extent in pair(size, axes))
    if mode == "area" and input.dim() == 4:
        size = size or tuple(int(n * s) for n, s in zip(input.shape[2:], pair(scale_factor, axes)))
        return adaptive_avg_pool2d(tr, input, size)
    # A whole multiple is a scale: then height and width may vary.
    if size is not None and axes in (1, 2) and not any(out % extent for out, extent in zip(size, input.shape[2:])):
        scale_factor, size = tuple(out // extent for out, extent in zip(size, input.shape[2:])), None
    scale = None if size is not None else tuple(float(s) for s in pair(scale_factor, axes))
    whole = scale is not None and all(s == int(s) for s in scale)
    if mode == "bicubic" and whole and len(set(scale)) == 1 and not align_corners and not antialias:
        return bicubic(tr, input, int(scale[0]))
    if mode == "nearest-exact" and whole:
        mode = "nearest"
    if mode == "linear" and input.dim() == 3:
        mode = "bilinear"
    if mode not in ("nearest", "bilinear") or antialias:
        tr.refuse(f"interpolation with mode {mode!r}{' and antialias' if antialias else ''}"
                  + (" by another factor than a whole number, the same of both axes" if mode == "bicubic" else ""))
    x, was_line = as_image(tr, input)
    options = {"align_corners": True} if align_corners else {}
    options.update({"size": (1,) * was_line + size} if size is not None else {"scale": (1.0,) * was_line + scale})
    return as_line(tr, tr.node("upsample_" + mode, [x], **options), was_line)


def bicubic(tr, input, scale):
    """Keys's cubic filter, a = -3/4, for each of scale * scale places in a pixel; a border repeats."""
    def tap(t):
        t, a = abs(t), -0.75
        return ((a + 2) * t - (a + 3)) * t * t + 1 if t <= 1 else ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0
    row = torch.tensor([[tap((phase + 0.5) / scale - 0.5 - at) for at in range(-2, 3)] for phase in range(scale)])
    weight = torch.einsum("ay,bx->abyx", row, row).reshape(scale * scale, 1, 5, 5).repeat(input.shape[1], 1, 1, 1)
    x = tr.node("pad2d", [tr.ref(input)], mode="replicate", left=2, right=2, top=2, bottom=2)
    x = tr.node("conv2d", [x], scope_of(tr, weight=weight), out_channels=weight.shape[0], kernel=(5, 5), bias=False,
                groups=input.shape[1])
    return x if scale == 1 else tr.node("pixel_shuffle", [x], factor=scale)


def window(kernel, stride, padding, was_line):
    axes = 1 if was_line else 2
    kernel = pair(kernel, axes)
    stride = kernel if stride is None or stride == [] or stride == () else pair(stride, axes)
    one, zero = (1,) * was_line, (0,) * was_line
    return {"kernel": one + tuple(kernel), "stride": one + tuple(stride), "padding": zero + tuple(pair(padding, axes))}


@rule("max_pool2d", "max_pool1d", "boolean_dispatch")
def max_pool(tr, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    x, was_line = as_image(tr, input)
    dilation = (1,) * was_line + tuple(pair(dilation, 1 if was_line else 2))
    made = as_line(tr, tr.node("max_pool2d", [x], **window(kernel_size, stride, padding, was_line), dilation=dilation,
                               ceil_mode=ceil_mode), was_line)
    return [made, Unknown("the index of max pooling")] if return_indices else made


@rule("avg_pool2d", "avg_pool1d")
def avg_pool(tr, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
             divisor_override=None):
    if divisor_override is not None and ceil_mode:
        tr.refuse("average pooling with divisor_override and ceil_mode")
    x, was_line = as_image(tr, input)
    made = tr.node("avg_pool2d", [x], **window(kernel_size, stride, padding, was_line), ceil_mode=ceil_mode,
                   count_include_pad=count_include_pad or divisor_override is not None)
    if divisor_override is not None:
        made = tr.node("scale", [made], factor=float(np.prod(pair(kernel_size))) / divisor_override)
    return as_line(tr, made, was_line)


def adaptive_window(tr, input, output_size):
    """(sizes, window) of an adaptive pool; no window where the extents are no multiples."""
    axes = input.dim() - 2
    sizes = [extent if size is None else size for size, extent in zip(pair(output_size, axes), input.shape[2:])]
    if axes not in (1, 2):
        tr.refuse(f"an image of shape {tuple(input.shape)}; (N, C, L) or (N, C, H, W) is needed")
    if any(extent % size for size, extent in zip(sizes, input.shape[2:])):
        return sizes, None
    return sizes, window(tuple(extent // size for size, extent in zip(sizes, input.shape[2:])), None, 0, axes == 1)


@rule("adaptive_avg_pool2d", "adaptive_avg_pool1d")
def adaptive_avg_pool2d(tr, input, output_size):
    sizes, kernel = adaptive_window(tr, input, output_size)
    if all(size == 1 for size in sizes):
        return tr.node("mean", [tr.ref(input)], axes=tuple(range(2, input.dim())), keepdim=True)
    if kernel is not None:
        x, was_line = as_image(tr, input)
        return as_line(tr, tr.node("avg_pool2d", [x], **kernel), was_line)
    x = tr.ref(input)  # windows that overlap: a matrix for each axis
    for axis in range(2, input.dim()):
        extent, size = input.shape[axis], sizes[axis - 2]
        matrix = torch.zeros(size, extent)
        for i in range(size):
            start, stop = i * extent // size, -(-(i + 1) * extent // size)
            matrix[i, start:stop] = 1.0 / (stop - start)
        last = axis == input.dim() - 1
        x = tr.node("matmul", [x, tr.constant(matrix.t())] if last else [tr.constant(matrix), x])
    return x


@rule("adaptive_max_pool2d", "adaptive_max_pool1d")
def adaptive_max_pool(tr, input, output_size, return_indices=False):
    sizes, kernel = adaptive_window(tr, input, output_size)
    if kernel is None:
        tr.refuse(f"adaptive max pooling of {tuple(input.shape[2:])} to {tuple(sizes)}, which is no multiple")
    x, was_line = as_image(tr, input)
    made = as_line(tr, tr.node("max_pool2d", [x], **kernel), was_line)
    return [made, Unknown("the index of max pooling")] if return_indices else made


def each_tap(channels, kernel):
    """A weight (channels * taps, 1, ...) whose output channel is one element of the window."""
    taps = int(np.prod(kernel))
    return torch.eye(taps).reshape(taps, 1, *kernel).repeat(channels, 1, 1, 1)


@rule("unfold")
def unfold(tr, input, kernel_size, dilation=1, padding=0, stride=1):
    weight = each_tap(input.shape[1], pair(kernel_size))
    x = tr.node("conv2d", [tr.ref(input)], scope_of(tr, weight=weight), out_channels=weight.shape[0],
                kernel=tuple(pair(kernel_size)), stride=tuple(pair(stride)), padding=tuple(pair(padding)),
                dilation=tuple(pair(dilation)), groups=input.shape[1], bias=False)
    return tr.node("flatten", [x], start=2, end=3)


@rule("fold")
def fold(tr, input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    kernel, size = pair(kernel_size), pair(output_size)
    dilation, padding, stride = pair(dilation), pair(padding), pair(stride)
    blocks = tuple((size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1))
    channels = input.shape[1] // int(np.prod(kernel))
    x = tr.node("reshape", [tr.ref(input)], shape=(input.shape[0], input.shape[1]) + blocks)
    return tr.node("conv_transpose2d", [x], scope_of(tr, weight=each_tap(channels, kernel)), out_channels=channels,
                   kernel=tuple(kernel), stride=stride, padding=padding, dilation=dilation, groups=channels, bias=False,
                   has_output_size=True, output_size=tuple(size))


@rule("pixel_shuffle")
def pixel_shuffle(tr, input, upscale_factor):
    return tr.node("pixel_shuffle", [tr.ref(input)], factor=upscale_factor)


@rule("pixel_unshuffle")
def pixel_unshuffle(tr, input, downscale_factor):
    return tr.node("pixel_unshuffle", [tr.ref(input)], factor=downscale_factor)


# ---- operators of torch.ops.aten that no function of torch is ----
#
# A module that torch.export made calls them: 'net.py:torch.export.load("net.pt2").module()'.


@rule("convolution", "_convolution")
def convolution(tr, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *_):
    axes = input.dim() - 2
    if transposed:
        return transposed_conv(axes)(tr, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return plain_conv(axes)(tr, input, weight, bias, stride, padding, dilation, groups)


@rule("native_batch_norm", "_native_batch_norm_legit_no_training")
def native_batch_norm(tr, input, weight, bias, running_mean, running_var, *rest):
    training, _, eps = rest if len(rest) == 3 else (False, *rest)
    return batch_norm(tr, input, running_mean, running_var, weight, bias, training, eps=eps)


@rule("native_group_norm")
def native_group_norm(tr, input, weight, bias, n, c, area, group, eps):
    return group_norm(tr, input, group, weight, bias, eps)


RULES["_reshape_alias"] = lambda tr, input, size, stride: RULES["reshape"](tr, input, size)
RULES["native_layer_norm"] = layer_norm
RULES["_softmax"] = lambda tr, input, dim, half_to_float: softmax(tr, input, dim)
RULES["_log_softmax"] = lambda tr, input, dim, half_to_float: log_softmax(tr, input, dim)
RULES["_adaptive_avg_pool2d"] = adaptive_avg_pool2d


@rule("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(tr, query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    return attention(tr, query, key, value, attn_mask, dropout_p, is_causal, scale)


@rule("slice")
def slice_of(tr, input, dim=0, start=None, end=None, step=1):
    return getitem(tr, input, (slice(None),) * positive(dim, input.dim()) + (slice(start, end, step),))


@rule("index")
def index_of(tr, input, indices):
    return getitem(tr, input, tuple(slice(None) if index is None else index for index in indices))


@rule("constant_pad_nd")
def constant_pad(tr, input, pad, value=0.0):
    return padded(tr, input, list(pad), "zero", float(value))


def border_rule(mode):
    return lambda tr, input, padding: padded(tr, input, list(padding), mode)


for _mode, _name in (("reflect", "reflection"), ("replicate", "replication")):
    for _axes in (1, 2):
        RULES[f"{_name}_pad{_axes}d"] = border_rule(_mode)


def upsample_rule(mode):
    """The overload `vec` has all scales in one list; the other one has each by itself behind the size."""
    def apply(tr, input, size=None, *rest):
        corners, rest = (None, list(rest)) if mode == "nearest" else (bool(rest[0]), list(rest[1:]))
        scales = rest[0] if rest and isinstance(rest[0], (list, tuple)) else rest
        known = size is None and len(scales) > 0 and None not in scales
        return interpolate(tr, input, size, list(scales) if known else None, mode, corners)
    return apply


for _name, _mode in (("nearest1d", "nearest"), ("nearest2d", "nearest"), ("linear1d", "linear"), ("bilinear2d", "bilinear"),
                     ("bicubic2d", "bicubic")):
    RULES[f"upsample_{_name}"] = upsample_rule(_mode)


# ---- running a module ----


class AnyBatchNorm(nn.modules.batchnorm._BatchNorm):  # pylint: disable=protected-access
    """In place of SyncBatchNorm, which wants a GPU."""

    def _check_input_dim(self, input):
        pass


def uncompiled(module):
    """The module that torch.compile was given, and those within it, for one CPU."""
    module = getattr(module, "_orig_mod", module)
    for path, part in module.named_modules():
        if isinstance(part, nn.SyncBatchNorm):
            part.__class__ = AnyBatchNorm
        if isinstance(part, torch.jit.ScriptModule):
            raise Refused(f"{path or 'the module'} ({type(part).__name__}) is compiled by torch.jit; the Python module that "
                          "it was made of can be exported")
        for name, child in list(part._modules.items()):
            if hasattr(child, "_orig_mod"):
                part._modules[name] = child._orig_mod
    return module


def fold_norms(module):
    """Weight norm and spectral norm become the weights that evaluation makes of them."""
    for part in module.modules():
        for hook in list(part._forward_pre_hooks.values()):
            kind = type(hook).__name__
            if kind == "WeightNorm":
                nn.utils.remove_weight_norm(part, hook.name)
            elif kind == "SpectralNorm":
                nn.utils.remove_spectral_norm(part, hook.name)
        if hasattr(nn.utils, "parametrize") and nn.utils.parametrize.is_parametrized(part):
            for name in list(part.parametrizations):
                nn.utils.parametrize.remove_parametrizations(part, name, leave_parametrized=True)
    with torch.no_grad():  # to the digits that the file has, so that a reference is that of its weights
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.dtype == torch.float64:
                tensor.copy_(tensor.float())


class Patched:
    """While a module runs: its tensors are traced, and calls of its parts are known by name."""

    def __init__(self, tracer, module):
        self.tracer, self.module, self.undo = tracer, module, []

    def __enter__(self):
        global TRACER
        TRACER = self.tracer
        tracer, call = self.tracer, nn.Module.__call__
        for path, part in self.module.named_modules():
            for table in (part._parameters, part._buffers):
                for name, tensor in list(table.items()):
                    if tensor is None or not tensor.is_floating_point():
                        continue
                    self.undo.append((table, name, tensor))
                    table[name] = tracer.wrap(tensor.detach(), None, f"{path}.{name}" if path else name, True)

        def named_call(part, *args, **kwargs):
            tracer.stack.append((tracer.paths.get(id(part), tracer.path()), part))
            try:
                return call(part, *args, **kwargs)
            finally:
                tracer.stack.pop()
        def without_inference_mode(context):
            context.mode = False  # its tensors know nothing of what is done to them in place
            return self.enter(context)
        self.call, self.enter = call, torch.inference_mode.__enter__
        nn.Module.__call__, torch.inference_mode.__enter__ = named_call, without_inference_mode
        return self

    def __exit__(self, *_):
        global TRACER
        TRACER = None
        nn.Module.__call__, torch.inference_mode.__enter__ = self.call, self.enter
        for table, name, tensor in self.undo:
            table[name] = tensor


def name_within(name, key, i, count):
    """features.0 of a list, inner.c of a dict, the name itself of a tensor."""
    if key is not None:
        return f"{name}.{key}"
    return name if count == 1 else f"{name}.{i}"


def output_list(made):
    """[(name or None, tensor)] of what forward returned."""
    if isinstance(made, torch.Tensor):
        return [(None, made)]
    if dataclasses.is_dataclass(made) and not isinstance(made, (type, dict)):
        made = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
    if isinstance(made, dict):
        found = []
        for name, item in made.items():
            parts = output_list(item)
            found += [(name_within(str(name), key, i, len(parts)), value) for i, (key, value) in enumerate(parts)]
        return found
    if isinstance(made, (tuple, list)):
        return [pair_ for item in made for pair_ in output_list(item)]
    if made is None:
        return []
    raise Refused(f"forward returned {type(made).__name__}; a tensor, or a tuple or dict of tensors, is needed")


def called(module, inputs):
    """The module on {name: tensor}: in their order where that is forward's, else by their names."""
    parameters = inspect.signature(module.forward).parameters
    first = list(parameters.values())[:len(inputs)]
    in_order = [p.name for p in first if p.kind != p.KEYWORD_ONLY] == list(inputs)
    return module(**inputs) if not in_order and set(inputs) <= set(parameters) else module(*inputs.values())


def trace(module, inputs, in_place):
    """Run the module on {name: tensor}; returns the tracer, and the outputs as [(name or None, value, tensor)]."""
    tracer = Tracer(module, in_place)
    with torch.no_grad(), Patched(tracer, module):
        given = []
        for name, tensor in inputs.items():
            tracer.names[name] = 1
            given.append(tracer.wrap(tensor.clone(), name))
            tracer.first = tracer.first or (name, given[0])
            if not tensor.is_floating_point():
                tracer.indices[name] = tuple(tensor.shape)
        random = torch.get_rng_state()
        made = called(module, dict(zip(inputs, given)))
        if not torch.equal(random, torch.get_rng_state()):
            raise Refused("the module draws random numbers; make them an input of forward")
        outputs = []
        for name, tensor in output_list(made):
            if not isinstance(tensor, Traced):
                raise Refused("an output of the module does not depend on its inputs")
            outputs.append((name, tracer.ref(tensor), tensor.as_subclass(torch.Tensor).detach().clone()))
    return tracer, outputs


def demand_same_outputs(module, inputs, outputs, dtype):
    """A run in float without the tracing gives the same, whatever the module does with its tensors. Not to all digits: it may
    compute some of them in half precision."""
    torch.set_default_dtype(torch.float32)
    try:
        with torch.no_grad():
            given = {name: x.float() if x.is_floating_point() else x.clone() for name, x in inputs.items()}
            made = output_list(called(module.float(), given))
    except Exception:  # pylint: disable=broad-except
        return  # it wants double precision
    finally:
        module.to(dtype)
        torch.set_default_dtype(dtype)
    for (name, value), (_, _, traced) in zip(made, outputs):
        limit = 0.02 * float(traced.nan_to_num().abs().max())
        if value.shape != traced.shape or not torch.allclose(value.to(traced.dtype), traced, 0.0, limit, equal_nan=True):
            raise Refused(f"the output{' ' + name if name else ''} of a second run is another one: the module changes a "
                          "tensor, or itself, in a way that the export does not see")


def demand_no_hidden_values(module, inputs, tracer, in_place):
    """A second run on other numbers: a constant that changes was made of an input, out of this file's sight."""
    try:
        others, _ = trace(module, {name: example(x.shape, x) for name, x in inputs.items()}, in_place)
    except Kept:
        raise
    except Exception:  # pylint: disable=broad-except
        return  # it does not take any numbers
    for name, tensor in tracer.tensors.items():
        if name not in tracer.own and (name not in others.tensors or not same_numbers(tensor, others.tensors[name])):
            raise Refused(f"{tracer.places.get(name, 'the module')}: a value that follows from an input is read as a "
                          "constant; a function of torch.jit, NumPy or C made it, which the export does not see")


# ---- shapes that vary ----


def vary(nodes, others, tensors, other_tensors):
    """Let the extents that differ in a second run be -1. None where that cannot be said."""
    if len(nodes) != len(others):
        return None
    for name in tensors:  # a constant that follows from a shape
        if name.startswith("constants.") and (name not in other_tensors or
                                              not same_numbers(tensors[name], other_tensors[name])):
            return None
    made = []
    for a, b in zip(nodes, others):
        if (a.name, a.layer, a.inputs, a.scope) != (b.name, b.layer, b.inputs, b.scope) or set(a.options) != set(b.options):
            return None
        options = dict(a.options)
        for key in a.options:
            if a.options[key] == b.options[key]:
                continue
            shape = varied_shape(a, b) if a.layer == "reshape" else None
            if shape is None:
                return None
            options[key] = shape
        made.append(Node(a.name, a.layer, a.inputs, options, a.scope))
        made[-1].before = a.before
    return made


def varied_shape(a, b):
    """A reshape's shape for two runs: 0 is the input's extent, and -1 one other. None where that does not do."""
    mine, other = list(a.options["shape"]), b.options["shape"]
    if len(mine) != len(other):
        return None
    for i, (x, y) in enumerate(zip(mine, other)):
        follows = i < len(b.before) and b.before[i] == y
        if x == 0 and not follows:
            return None
        if x == y or x in (0, -1):
            continue
        if follows and i < len(a.before) and a.before[i] == x:
            mine[i] = 0
        elif -1 in mine:
            return None
        else:
            mine[i] = -1
    return tuple(mine)


def same_numbers(a, b):
    a, b = a.as_subclass(torch.Tensor), b.as_subclass(torch.Tensor)
    return a.shape == b.shape and bool(((a == b) | (a != a) & (b != b)).all())


def variations(inputs):
    """[(symbol by input and axis, [shapes of another run])]. After the first the shapes need not be the module's: one
    more than a multiple tells a size that follows an input's from a factor."""
    tensors = list(inputs.values())
    if all(x.dim() > 0 and x.shape[0] == tensors[0].shape[0] for x in tensors):
        yield {(name, 0): "N" for name in inputs}, [lambda x: (x.shape[0] + 1,) + tuple(x.shape[1:])]
    for rank, symbols, factors in ((4, "HW", (2, 3)), (3, "L", (2,))):
        names = [name for name, x in inputs.items() if x.dim() == rank and x.is_floating_point()]
        extents = {tuple(inputs[name].shape[2:]) for name in names}
        if len(extents) == 1:
            def shape(x, more, rank=rank, factors=factors):
                if x.dim() != rank or not x.is_floating_point():
                    return tuple(x.shape)
                return tuple(x.shape[:2]) + tuple(e * f + more for e, f in zip(x.shape[2:], factors))
            yield {(name, 2 + i): symbol for name in names for i, symbol in enumerate(symbols)}, [
                lambda x, shape=shape: shape(x, 0), lambda x, shape=shape: shape(x, 1)]


def example(shape, like):
    if like.is_floating_point():
        return torch.randn(shape, dtype=like.dtype)
    return like.reshape(-1)[torch.arange(int(np.prod(shape))) % like.numel()].reshape(shape)


def find_symbols(module, inputs, tracer, in_place):
    symbols, nodes = {}, tracer.nodes
    for names, shapes in variations(inputs):
        varied = None
        for count, shape in enumerate(shapes):
            try:
                others, _ = trace(module, {name: example(shape(x), x) for name, x in inputs.items()}, in_place)
            except Exception:  # pylint: disable=broad-except
                if count == 0:
                    break
                continue  # this module does not take such shapes
            varied = vary(nodes if count == 0 else varied, others.nodes, tracer.tensors, others.tensors)
            if varied is None:
                break
        if varied is not None:
            nodes, symbols = varied, {**symbols, **names}
    return nodes, symbols


def find_with(module, inputs, in_place):
    """(inputs, tracer, outputs, nodes, symbols) of a run on other examples; None where the batch does not vary."""
    try:
        tracer, outputs = trace(module, inputs, in_place)
    except Exception:  # pylint: disable=broad-except
        return None
    nodes, symbols = find_symbols(module, inputs, tracer, in_place)
    return (inputs, tracer, outputs, nodes, symbols) if "N" in symbols.values() else None


# ---- text ----


def word(name):
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def value_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(value_text(item) for item in value) + ")"
    if isinstance(value, float):
        return repr(value) if value not in (float("inf"), float("-inf")) else "inf" if value > 0 else "-inf"
    return word(value) if isinstance(value, str) else str(value)


# Options that say what is so anyway: torch.nn's defaults, which are unfurl's.
DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "groups": 1, "bias": True, "align_corners": False,
            "keepdim": False, "ceil_mode": False, "count_include_pad": True, "elementwise_affine": True,
            "track_running_stats": False, "left": 0, "right": 0, "top": 0, "bottom": 0}


def is_default(node, key, value):
    if key == "groups" and node.layer == "group_norm" or key == "stride" and "pool" in node.layer:
        return False
    if key == "affine":
        return value == (not node.layer.startswith("instance_norm"))
    if key == "eps":
        return value == 1e-5
    if isinstance(value, tuple) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    return key in DEFAULTS and value == DEFAULTS[key]


def node_text(node):
    words = [word(name) for name in node.inputs]
    if node.scope is not None and node.scope != node.name:
        words.append(f"at={word(node.scope)}")
    for key, value in node.options.items():
        if not is_default(node, key, value):
            if isinstance(value, tuple) and len(value) == 2 and value[0] == value[1] and key not in ("axes", "shape"):
                value = value[0]
            words.append(f"{key}={value_text(value)}")
    return f"{word(node.name)} = {node.layer}({', '.join(words)})"


def model_text(inputs, symbols, nodes, outputs, pictures):
    lines = ["unfurl model 1"]
    for name, tensor in inputs.items():
        extents = [f"{symbols[name, i]}={extent}" if (name, i) in symbols else str(extent)
                   for i, extent in enumerate(tensor.shape)]
        lines.append(f"input {word(name)} {'f32' if tensor.is_floating_point() else 'i64'} ({', '.join(extents)})")
    lines += [node_text(node) for node in nodes]
    lines += [f"output {word(name)} = {word(value)}" for name, value, _ in outputs]
    return "\n".join(lines + [f"picture {text}" for text in pictures]) + "\n"


# ---- files ----


def write_file(path, fill):
    """A whole file or none."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise Refused(f"cannot write {path}: there is no such folder")
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with h5py.File(temporary, "w") as file:
            fill(file)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def array(tensor, real=np.float32):
    made = tensor.detach().cpu()
    return made.to(torch.float64).numpy().astype(real) if made.is_floating_point() else made.numpy().astype(np.int64)


def used(nodes, outputs):
    """The nodes that an output needs."""
    by_name, wanted, todo = {node.name: node for node in nodes}, set(), [value for _, value, _ in outputs]
    while todo:
        name = todo.pop()
        if name in by_name and name not in wanted:
            wanted.add(name)
            todo += by_name[name].inputs
    return [node for node in nodes if node.name in wanted]


# The tensors of a layer with a scope.
def tensors_of(node, tensors):
    if node.scope is None:
        return {}
    prefix = f"{node.scope}." if node.scope else ""
    if node.layer == "parameter":
        names = [node.options["name"]]
    else:
        names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
        if node.options.get("bias") is False:
            names.remove("bias")
        if node.options.get("affine") is False or node.options.get("elementwise_affine") is False:
            names = names[2:]
        if "norm" not in node.layer or not (node.layer.startswith("batch") or node.options.get("track_running_stats")):
            names = [name for name in names if name in ("weight", "bias")]
    return {prefix + name: tensors[prefix + name] for name in names if prefix + name in tensors}


def name_outputs(outputs, names):
    if names and len(names) != len(outputs):
        raise UsageError(f"--output-names has {len(names)} names; the module has {len(outputs)} outputs")
    made = []
    for i, (name, value, tensor) in enumerate(outputs):
        usual = "image" if tensor.dim() == 4 and tensor.shape[1] in (1, 3) else "output"
        made.append((names[i] if names else name or (usual if len(outputs) == 1 else f"output_{i}"), value, tensor))
    if len({name for name, _, _ in made}) != len(made):
        raise UsageError("two outputs have one name; --output-names gives them others")
    return made


def guess_pictures(nodes, outputs):
    """An image that tanh made is in -1 to 1."""
    layers = {node.name: node.layer for node in nodes}
    return [f"output {word(name)} range=(-1, 1)" for name, value, tensor in outputs
            if tensor.dim() == 4 and tensor.shape[1] in (1, 3) and layers.get(value) == "tanh"]


def trace_best(module, inputs, in_place):
    """In double where the module can, else in float."""
    before = torch.get_default_dtype()
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        module.to(dtype)
        made = {name: x.to(dtype) if x.is_floating_point() else x for name, x in inputs.items()}
        try:
            return made, dtype, trace(module, made, in_place)
        except Refused:
            raise
        except Exception as error:  # pylint: disable=broad-except
            if dtype == torch.float32:
                kind = "" if isinstance(error, RuntimeError) else f"{type(error).__name__}: "
                raise Refused("the module does not run on inputs of shapes "
                              f"{', '.join(str(tuple(x.shape)) for x in inputs.values())}: {kind}{first_line(error)}") \
                    from error
        finally:
            torch.set_default_dtype(before)
    return None


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def is_comparable(values, node, inputs):
    """Whether a value is finite and has digits that are right; the mean of what a norm made has none: in exact numbers
    it would be 0. A value that is small beside what it was made of and beside the inputs is such a one."""
    value = values.get(node.name)
    if value is None or not bool(torch.isfinite(value).all()):
        return False
    operands = [float(values[name].abs().max()) for name in [*node.inputs, *inputs] if name in values]
    return not operands or float(value.abs().max()) >= 1e-13 * max(operands)


def set_eval(module):
    """A module that torch.export made has no modes, and says so by an exception."""
    try:
        module.eval()
    except NotImplementedError:
        pass


def is_lazy(tensor):
    return isinstance(tensor, (nn.parameter.UninitializedParameter, nn.parameter.UninitializedBuffer))


def export(module, inputs, path, output_names=None, pictures=None, reference=None, in_place=False, fixed=False):
    """Write `module` as the model file `path`. `inputs`: {name: example tensor}, in the order of forward's arguments.
    `reference`: a file that gets inputs, values and outputs, for `unfurl run --check`. Returns the text."""
    module = uncompiled(module)
    set_eval(module)
    if any(map(is_lazy, [*module.parameters(), *module.buffers()])):
        with torch.no_grad():
            called(module, inputs)
    module.double()
    fold_norms(module)
    usual, dtype, (tracer, outputs) = trace_best(module, inputs, in_place)
    inputs = usual
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        demand_no_hidden_values(module, inputs, tracer, in_place)
        demand_same_outputs(module, inputs, outputs, dtype)
        nodes, symbols = (tracer.nodes, {}) if fixed else find_symbols(module, inputs, tracer, in_place)
        if not fixed and "N" not in symbols.values() and all(x.dim() > 0 and len(x) == 1 for x in inputs.values()):
            twice = {name: example((2,) + tuple(x.shape[1:]), x) for name, x in inputs.items()}
            found = find_with(module, twice, in_place)
            if found is not None:  # a batch that is made within shows from two rows on
                inputs, tracer, outputs, nodes, symbols = found
    finally:
        torch.set_default_dtype(before)
    outputs = name_outputs(outputs, output_names)
    nodes = used(nodes, outputs)
    text = model_text(usual, symbols, nodes, outputs, guess_pictures(nodes, outputs) if pictures is None else pictures)
    weights = {}
    for node in nodes:
        weights.update(tensors_of(node, tracer.tensors))

    def fill_model(file):
        file.create_dataset("model", data=np.bytes_(text.encode()))
        group = file.create_group("weights")
        for name, tensor in weights.items():
            group.create_dataset(name, data=array(tensor))

    def fill_reference(file):
        for name, tensor in inputs.items():
            file.create_dataset(f"inputs/{name}", data=array(tensor, np.float64))
        for node in nodes:
            if is_comparable(tracer.values, node, inputs):
                file.create_dataset(f"values/{node.name}", data=array(tracer.values[node.name], np.float64))
        for name, _, tensor in outputs:
            file.create_dataset(f"outputs/{name}", data=array(tensor, np.float64))

    write_file(path, fill_model)
    if reference is not None:
        write_file(reference, fill_reference)
    return text


# ---- the command ----


def load_module(place):
    file, _, expression = place.partition(":")
    if not expression:
        raise UsageError(f"'{place}' is not FILE.py:MODULE")
    if not os.path.exists(file):
        raise UsageError(f"there is no file {file}")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    import importlib.util
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(file))[0], file)
    if spec is None:
        raise UsageError(f"{file} is no Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    try:
        spec.loader.exec_module(loaded)
        made = eval(expression, vars(loaded))  # pylint: disable=eval-used
        if not isinstance(made, nn.Module) and callable(made):
            made = made()
    except Exception as error:
        raise Refused(f"{place}: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(made, nn.Module):
        raise Refused(f"{place} is {type(made).__name__}, not a module of PyTorch")
    return made


SAFETENSORS_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
                     "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
                     "BOOL": torch.bool}


def read_safetensors(path):
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    head.pop("__metadata__", None)
    found = {}
    for name, entry in head.items():
        start, stop = entry["data_offsets"]
        dtype = SAFETENSORS_TYPES[entry["dtype"]]
        part = torch.frombuffer(data[start:stop], dtype=dtype) if stop > start else torch.empty(0, dtype=dtype)
        found[name] = part.reshape(entry["shape"]).clone()
    return found


# The names that a parametrization gives to tensors, and those that the hooks before it gave.
PARAMETRIZED = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v",
                "parametrizations.weight.original": "weight_orig", "parametrizations.weight.0._u": "weight_u",
                "parametrizations.weight.0._v": "weight_v"}


def renamed(state, wanted):
    """The tensors under the names that the module has, where torch.compile, DataParallel or another version of weight
    norm and spectral norm has given them others."""
    state = {name.replace("_orig_mod.", ""): value for name, value in state.items()}
    while state and not set(state) & set(wanted) and all(name.startswith("module.") for name in state):
        state = {name[len("module."):]: value for name, value in state.items()}
    for name in wanted:
        for new, old in PARAMETRIZED.items():
            for mine, other in ((new, old), (old, new)):
                place = name[:-len(mine)]
                if name not in state and name == place + mine and (not place or place.endswith(".")) \
                        and place + other in state and place + other not in wanted:
                    state[name] = state.pop(place + other)
    return state


def read_weights(path, trust):
    if not os.path.exists(path):
        raise UsageError(f"there is no file {path}")
    try:
        if h5py.is_hdf5(path):
            found = {}
            with h5py.File(path, "r") as file:
                file.visititems(lambda name, item: found.__setitem__(name.replace("/", "."), torch.from_numpy(
                    np.asarray(item[()])).clone()) if isinstance(item, h5py.Dataset) else None)
            return found
        if path.endswith(".safetensors"):
            return read_safetensors(path)
        loaded = torch.load(path, map_location="cpu", weights_only=not trust)
    except Exception as error:
        hint = "" if trust else "; --trust reads a pickle that may run any code"
        raise Refused(f"{path} cannot be read: {first_line(error)[:200]}{hint}") from error
    if isinstance(loaded, nn.Module):
        return loaded.state_dict()
    for key in ("state_dict", "params_ema", "params", "generator", "model", "net"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise Refused(f"{path} holds no state_dict: {type(loaded).__name__}")
    return loaded


def shorten(names):
    names = sorted(names)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def load_weights(module, path, trust):
    state = read_weights(path, trust)
    module = uncompiled(module)
    wanted = module.state_dict()
    state = renamed(state, wanted)
    missing = [name for name in wanted if name not in state and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in state if name not in wanted]
    other = [name for name in wanted if name in state and not is_lazy(wanted[name])
             and tuple(state[name].shape) != tuple(wanted[name].shape)]
    if missing:
        raise Refused(f"{path} lacks {shorten(missing)}")
    if unexpected:
        raise Refused(f"{path} has {shorten(unexpected)}, which the module has not")
    if other:
        raise Refused(f"{path}: {other[0]} is {tuple(state[other[0]].shape)}, the module's is "
                      f"{tuple(wanted[other[0]].shape)}")
    module.load_state_dict(state, strict=False)


def argument_names(module):
    names = []
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            names.append(parameter.name)
    return names or list(inspect.signature(module.forward).parameters)[:1] or ["input"]


def parse_input(text):
    found = re.fullmatch(r"([^=]+)=(\d+(?:,\d+)*)?(?::(f32|i64))?", text)
    if not found:
        raise UsageError(f"--input '{text}' is not NAME=EXTENT,EXTENT,... with :i64 for indices")
    shape = tuple(int(extent) for extent in found[2].split(",")) if found[2] else ()
    if any(extent < 1 for extent in shape):
        raise UsageError(f"--input '{text}': extents are 1 or more")
    return found[1], shape, found[3] == "i64"


def example_of(module, shape, i64):
    if not i64:
        return torch.randn(shape)
    classes = min((part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)), default=2)
    return torch.randint(classes, shape)


def candidates(module):
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            return [((1,), True)]
        if isinstance(part, nn.Linear):
            return [((1, part.in_features), False)]
        if isinstance(part, nn.ConvTranspose2d):
            return [((1, part.in_channels, 1, 1), False), ((1, part.in_channels, 8, 8), False),
                    ((1, part.in_channels), False)]
        if isinstance(part, nn.Conv2d):
            return [((1, part.in_channels, side, side), False) for side in (64, 128, 256, 32, 224, 28)]
        if isinstance(part, (nn.Conv1d, nn.ConvTranspose1d)):
            return [((1, part.in_channels, 64), False)]
    return []


def guess_inputs(module, names):
    if len(names) == 1:
        for shape, i64 in candidates(module):
            try:
                set_eval(module)
                with torch.no_grad():
                    module(example_of(module, shape, i64))
                return {names[0]: example_of(module, shape, i64)}
            except Exception:  # pylint: disable=broad-except
                continue
    raise UsageError("say the shape of each input: " + " ".join(f"--input {name}=1,3,64,64" for name in names))


def make_inputs(module, options):
    names = argument_names(module)
    if not options.input:
        return guess_inputs(module, names)
    given = [parse_input(text) for text in options.input]
    made = {name: example_of(module, shape, i64) for name, shape, i64 in given}
    every = inspect.signature(module.forward).parameters
    by_name = set(names) <= set(made) <= set(every)
    if not by_name and len(given) != len(names) and not any(p.kind == p.VAR_POSITIONAL for p in every.values()):
        raise UsageError(f"forward takes {', '.join(every)}; --input names {', '.join(made)}")
    return made


def main(words=None):
    parser = argparse.ArgumentParser(prog="unfurl_export.py", description=__doc__.split("\n\n")[0],
                                     epilog="\n\n".join(__doc__.split("\n\n")[1:]),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", metavar="FILE.py:MODULE")
    parser.add_argument("weights", metavar="WEIGHTS")
    parser.add_argument("model", metavar="MODEL.h5")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=SHAPE[:i64]",
                        help="an input's usual shape, in the order of forward's arguments; guessed for simple modules")
    parser.add_argument("--output-names", metavar="NAME,...", help="of the outputs, in the order that forward returns")
    parser.add_argument("--picture", action="append", metavar="TEXT", help="a picture line of the model file, such as "
                        "'output image range=(-1, 1)'; an image that tanh makes has this one anyway")
    parser.add_argument("--reference", metavar="FILE.h5", help="write inputs, values and outputs, for unfurl run --check")
    parser.add_argument("--in-place", action="store_true", help="a value that an operation in place overwrites has its "
                        "new contents for later readers, as in PyTorch; refused otherwise")
    parser.add_argument("--fixed", action="store_true", help="do not look for extents that may vary")
    parser.add_argument("--seed", type=int, default=0, help="of the example inputs (0)")
    parser.add_argument("--trust", action="store_true", help="read WEIGHTS with pickle, which runs any code in it")
    options = parser.parse_args(words)
    try:
        torch.manual_seed(options.seed)
        module = load_module(options.module)
        if options.weights != "-":
            load_weights(module, options.weights, options.trust)
        inputs = make_inputs(module, options)
        export(module, inputs, options.model, options.output_names.split(",") if options.output_names else None,
               options.picture, options.reference, options.in_place, options.fixed)
    except UsageError as error:
        print(f"unfurl_export.py: {error}", file=sys.stderr)
        return 2
    except Refused as error:
        print(f"unfurl_export.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"unfurl_export.py: {first_line(error)}", file=sys.stderr)
        return 1
    except Exception as error:  # pylint: disable=broad-except
        print(f"unfurl_export.py: the export failed by {type(error).__name__}: {first_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
