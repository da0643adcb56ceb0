"""Which node is what, in graphs that no small file makes: written by hand."""

from __future__ import annotations

from app.engine.process.probe.graph import GraphMap, Leaf, Node, read_graph

EMBD, HEADS, CELLS = 64, 4, 256


class Graph:
    """Nodes, as llama.cpp makes them for one token."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, name: str, op: str, *sources: int | Leaf, shape: tuple[int, ...] = ()) -> int:
        self.nodes.append(Node(name, op, (shape or (EMBD, 1, 1, 1)), sources))
        return len(self.nodes) - 1

    def norm(self, x: int, weight: str) -> int:
        return self.add("norm", "MUL", self.add("norm", "RMS_NORM", x), Leaf(weight))

    def block(self, layer: int, x: int, keys_of: int, index: Leaf) -> int:
        """Attention and FFN; the keys are those of layer `keys_of`."""
        blk = f"blk.{layer}"
        h = self.norm(x, f"{blk}.attn_norm.weight")
        q = self.add("Qcur", "MUL_MAT", Leaf(f"{blk}.attn_q.weight"), h)
        q = self.add("Qcur", "ROPE", q, Leaf("inp_pos"))
        cache = Leaf(f"cache_k_l{keys_of}", 1000 + keys_of)
        keys: int | Leaf = cache
        if keys_of == layer:
            k = self.add("Kcur", "MUL_MAT", Leaf(f"{blk}.attn_k.weight"), h)
            k = self.add("Kcur", "ROPE", k, Leaf("inp_pos"))
            self.add(f"cache_k_l{layer} (view)", "SET_ROWS", k, index, cache)
        keys = self.add("view", "PERMUTE", cache, shape=(EMBD // HEADS, CELLS, HEADS, 1))
        values = self.add("view", "PERMUTE", Leaf(f"cache_v_l{keys_of}"))
        shape = (EMBD // HEADS, HEADS, 1, 1)
        found = self.add("node", "FLASH_ATTN_EXT", q, keys, values, Leaf("mask"), shape=shape)
        found = self.add("kqv_out", "RESHAPE", found)
        x = self.add(
            "sum", "ADD", self.add("o", "MUL_MAT", Leaf(f"{blk}.attn_output.weight"), found), x
        )
        h = self.norm(x, f"{blk}.ffn_norm.weight")
        write = self.add("ffn", "MUL_MAT", Leaf(f"{blk}.ffn_down.weight"), h)
        return self.add("l_out", "ADD", write, x)

    def read(self, n_layer: int, x: int) -> GraphMap:
        self.add("result_norm", "MUL", self.add("norm", "RMS_NORM", x), Leaf("output_norm.weight"))
        self.add("result_output", "MUL_MAT", Leaf("output.weight"), len(self.nodes) - 1)
        return read_graph(self.nodes, n_layer, EMBD)


def test_layers_that_share_keys_each_have_their_own_attention() -> None:
    """The last layers of some networks (Gemma 3n) read what earlier ones have stored."""
    graph = Graph()
    x = graph.add("embd", "GET_ROWS", Leaf("token_embd.weight"), Leaf("inp_tokens"))
    whole, window = Leaf("attn_inp_k_idxs", 10), Leaf("attn_inp_k_idxs", 20)
    for layer, (keys_of, index) in enumerate([(0, window), (1, whole), (0, window), (1, whole)]):
        x = graph.block(layer, x, keys_of, index)
    found = graph.read(4, x)
    at = [layer.attention for layer in found.layers]
    assert at == [n for n, node in enumerate(graph.nodes) if node.op == "FLASH_ATTN_EXT"]
    assert [layer.cache for layer in found.layers] == [1, 0, 1, 0]
    assert found.caches == [[1], [0]], "without a window first"
    queries = [n for n, node in enumerate(graph.nodes) if (node.name, node.op) == ("Qcur", "ROPE")]
    assert [layer.q_after for layer in found.layers] == queries
    assert [layer.k_after is None for layer in found.layers] == [False, False, True, True]
    assert all(layer.residual is not None for layer in found.layers)


def test_caches_are_told_apart_by_their_layers_or_their_order() -> None:
    assert GraphMap([], caches=[[0, 2]]).in_order_of_caches([3]) == [0]
    uneven = GraphMap([], caches=[[3], [0, 1, 2]], caches_in_order=False)
    assert uneven.in_order_of_caches([1, 3]) == [0, 1]
    assert uneven.in_order_of_caches([3, 1]) == [1, 0]
    assert uneven.in_order_of_caches([2, 2]) is None
    even = GraphMap([], caches=[[1, 3], [0, 2]])
    assert even.in_order_of_caches([2, 2]) == [0, 1]
    assert even.in_order_of_caches([2]) is None
    even.caches_in_order = False  # on several devices
    assert even.in_order_of_caches([2, 2]) is None
