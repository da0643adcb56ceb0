"""llama.cpp's evaluation callback: it learns a graph, takes values out of one, and puts some in.

llama.cpp asks for each node, in order, whether its values are wanted; where they are, it computes
up to there, waits for the device, and calls again. Of the graph of one token the k-th node is
always the same one, so nodes are known by their ordinal; their name and operation are compared
each time, and a graph that is another one is not read.

What must hold: the callback never raises and never says False once there are values (llama.cpp
would stop in the middle and report success); what it is given stays valid only while it runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from app.engine.process.native.native import llama
from app.engine.process.probe.graph import Leaf, Node
from app.engine.process.probe.tensors import Tensor, name_of, op_of

Take = Callable[[Tensor], None]
"""Called with the node once it is computed, while it may be read and written."""


class OtherGraph(Exception):  # noqa: N818 - the map has to be made anew
    """The graph that ran is not the one that was learned."""


class Watch:
    """The callback of one context. `learn` and `during` say what the next decode is watched for;
    without either it says no to every node."""

    def __init__(self) -> None:
        self.callback = llama.ggml_backend_sched_eval_callback(self._on_node)
        self._nodes: list[Node] | None = None
        self._ordinals: dict[int, int] = {}
        self._wanted: Mapping[int, Take] = {}
        self._expected: Mapping[int, tuple[str, str]] = {}
        self._writes: Take | None = None
        self._written: tuple[bytes, ...] = ()
        self._begins: Callable[[], None] | None = None
        self._at = -1
        self._fault: Exception | None = None

    def learn(self, decode: Callable[[], None]) -> list[Node]:
        """The nodes of the graph that `decode` runs."""
        self._nodes, self._ordinals, self._at, self._fault = [], {}, -1, None
        try:
            decode()
            self._raise()
            return self._nodes
        finally:
            self._nodes = None

    def during(
        self,
        decode: Callable[[], None],
        wanted: Mapping[int, Take],
        nodes: Sequence[Node],
        begins: Callable[[], None] | None = None,
    ) -> None:
        """Run `decode` and hand out the wanted nodes, by ordinal. `nodes`: what they must be.
        `begins` is called before the first node is computed. Raises OtherGraph where they are
        something else, and what a `Take` raised."""
        self._wanted, self._at, self._fault, self._begins = wanted, -1, None, begins
        self._expected = {at: (nodes[at].name, nodes[at].op) for at in wanted}
        try:
            decode()
            self._raise()
            if self._at < max(wanted, default=-1):
                raise OtherGraph
        finally:
            self._wanted, self._expected, self._begins = {}, {}, None

    def on_writes(self, decode: Callable[[], None], take: Take, layers: Iterable[int]) -> None:
        """Run `decode`, of any number of tokens, and hand out the writes of these layers' keys. At
        each of them all threads wait for each other, so they should be few."""
        self._written = tuple(b"cache_k_l%d " % layer for layer in layers)
        self._writes, self._fault = take, None
        try:
            decode()
            self._raise()
        finally:
            self._writes = None

    def _raise(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _on_node(self, address: int, asks: bool, _: object) -> bool:
        # An exception or False would leave the graph half computed, and llama_decode would say
        # that all went well.
        try:
            return self._asked(address) if asks else self._computed(address)
        except Exception as fault:  # noqa: BLE001 - it is raised where the decode was called
            self._fault = self._fault or fault
            return not asks

    def _asked(self, address: int) -> bool:
        self._at += 1
        if self._begins is not None and self._at == 0:
            self._begins()
        if self._nodes is not None:
            self._nodes.append(self._node(address))
            return False
        if self._writes is not None:
            tensor = ctypes.cast(address, _POINTER).contents
            return op_of(tensor) == "SET_ROWS" and tensor.name.startswith(self._written)
        if self._at not in self._wanted or self._fault is not None:
            return False
        tensor = ctypes.cast(address, _POINTER).contents
        if (name_of(tensor), op_of(tensor)) != self._expected[self._at]:
            self._fault = OtherGraph()
            return False
        return True

    def _computed(self, address: int) -> bool:
        tensor = ctypes.cast(address, _POINTER).contents
        take = self._writes if self._writes is not None else self._wanted.get(self._at)
        if take is not None and self._fault is None:
            take(tensor)
        return True

    def _node(self, address: int) -> Node:
        assert self._nodes is not None
        self._ordinals[address] = len(self._nodes)
        tensor = ctypes.cast(address, _POINTER).contents
        sources = tuple(self._source(tensor.src[i]) for i in range(10) if tensor.src[i])
        name, op = name_of(tensor), op_of(tensor)
        params = tuple(tensor.op_params) if op == "ROPE" else ()
        return Node(name, op, tuple(tensor.ne), sources, params)

    def _source(self, pointer: Any) -> int | Leaf:
        address = ctypes.addressof(pointer.contents)
        if address in self._ordinals:
            return self._ordinals[address]
        # Between two devices a copy takes a node's place, called DEVICE#NAME#NUMBER.
        name = name_of(pointer.contents)
        _, is_copy, rest = name.partition("#")
        if is_copy and self._nodes is not None:
            original = rest.rpartition("#")[0]
            for ordinal in range(len(self._nodes) - 1, -1, -1):
                if self._nodes[ordinal].name == original:
                    return ordinal
            return Leaf(original, -address)
        return Leaf(name, address)


_POINTER: Final = ctypes.POINTER(Tensor)
