"""Times PyTorch's fused attention on the packs that `bench_gpu shapes` lists, and adds the seconds to a file of figures.

Usage: torch_attention.py SHAPES FIGURES
A way that refuses a shape, or disagrees with plain attention on a small pack, gets a line that says so.
Exit codes: 0, 2 without a GPU.
"""
import statistics
import sys

import torch

HEADS, KV_HEADS, DIM = 32, 8, 128
WARM_UP, REPEATS = 2, 10


def read_shapes(lines):
    """Name, and (tokens, prefix) of each slice."""
    for line in lines:
        name, slices = line.rstrip("\n").split("\t")
        yield name, [tuple(map(int, s.split(":"))) for s in slices.split(",")]


def borders(lengths):
    total = [0]
    for n in lengths:
        total.append(total[-1] + n)
    return torch.tensor(total, dtype=torch.int32, device="cuda")


class Pack:
    """Random queries, keys and values of a pack, [tokens, heads, numbers]."""

    def __init__(self, slices):
        self.slices = slices
        self.queries, self.keys = [t for t, _ in slices], [t + p for t, p in slices]

        def rows(n, heads):
            return torch.randn(n, heads, DIM, dtype=torch.bfloat16, device="cuda")

        self.q, self.dout = (rows(sum(self.queries), HEADS) for _ in range(2))
        self.k, self.v = (rows(sum(self.keys), KV_HEADS) for _ in range(2))


class Flash:
    """PyTorch's own FlashAttention: the last query sees the last key, whatever stands before."""

    name = "PyTorch, flash"

    def __init__(self, pack):
        self.pack = pack
        self.sizes = (borders(pack.queries), borders(pack.keys), max(pack.queries), max(pack.keys))
        self.scale = DIM**-0.5

    def forward(self):
        p = self.pack
        self.results = torch.ops.aten._flash_attention_forward(
            p.q, p.k, p.v, *self.sizes, 0.0, True, False, scale=self.scale)
        return self.results[0]

    def backward(self):
        p, (out, lse, *random) = self.pack, self.results
        return torch.ops.aten._flash_attention_backward(
            p.dout, p.q, p.k, p.v, out, lse, *self.sizes, 0.0, True, random[0], random[1], scale=self.scale)


class Cudnn:
    """cuDNN through PyTorch: samples of one length without a prefix, which is what its causal mask takes."""

    name = "PyTorch, cuDNN"

    def __init__(self, pack):
        tokens = pack.queries[0]
        if any(s != (tokens, 0) for s in pack.slices):
            raise ValueError("takes samples of one length without prefixes")
        self.inputs = [m.view(len(pack.slices), tokens, -1, DIM).transpose(1, 2).detach().requires_grad_()
                       for m in (pack.q, pack.k, pack.v)]
        self.dout = pack.dout.view(len(pack.slices), tokens, HEADS, DIM).transpose(1, 2)

    def forward(self):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            self.out = torch.nn.functional.scaled_dot_product_attention(*self.inputs, is_causal=True, enable_gqa=True)
        return self.out.transpose(1, 2).reshape(-1, HEADS, DIM)

    def backward(self):
        return torch.autograd.grad(self.out, self.inputs, self.dout, retain_graph=True)


def plain(pack):
    """The same in float, slice by slice."""
    out, q_end, k_end = [], 0, 0
    for tokens, prefix in pack.slices:
        q = pack.q[q_end:q_end + tokens].float()
        k, v = (m[k_end:k_end + tokens + prefix].float().repeat_interleave(HEADS // KV_HEADS, 1)
                for m in (pack.k, pack.v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * DIM**-0.5
        unseen = torch.ones_like(scores[0], dtype=torch.bool).triu(prefix + 1)
        out.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(unseen, -torch.inf).softmax(-1), v))
        q_end, k_end = q_end + tokens, k_end + tokens + prefix
    return torch.cat(out)


def check(way):
    """Raises if a way computes something else than we do, on a small pack that it takes."""
    packs = [[(64, 192), (100, 0)], [(128, 0), (128, 0)]]
    for slices in packs:
        pack = Pack(slices)
        try:
            prepared = way(pack)
        except ValueError:
            continue
        expected = plain(pack)
        error = ((prepared.forward().float() - expected).norm() / expected.norm()).item()
        if not error <= 1e-2:
            raise RuntimeError(f"is off by {error:.1e} on {slices}")
        prepared.backward()


def seconds(run):
    """Median by the GPU's clock."""
    times = []
    for _ in range(WARM_UP + REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times[WARM_UP:])


def one_line(error):
    return " ".join(str(error).split())[:200]


def main():
    if not torch.cuda.is_available():
        print("torch_attention.py: PyTorch sees no GPU; expected one", file=sys.stderr)
        return 2
    torch.manual_seed(1)
    with open(sys.argv[1], encoding="utf-8") as shapes:
        packs = list(read_shapes(shapes))
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}\n")
    print("| attention | by | forward, ms | backward, ms |\n| --- | --- | --- | --- |")
    with open(sys.argv[2], "a", encoding="utf-8") as figures:
        for way in (Flash, Cudnn):
            wrong = None
            try:
                check(way)
            except Exception as error:  # another version's interface, or no kernels
                wrong = error
            for name, slices in packs:
                try:
                    if wrong:
                        raise wrong
                    prepared = way(Pack(slices))
                    times = {"forward": seconds(prepared.forward), "backward": seconds(prepared.backward)}
                    print(f"| {name} | {way.name} | {times['forward'] * 1e3:.3f} | {times['backward'] * 1e3:.3f} |")
                except Exception as error:
                    print(f"| {name} | {way.name} | refused: {one_line(error)} | |")
                    times = {"forward": one_line(error), "backward": one_line(error)}
                for which, value in times.items():
                    figures.write(f"attention/{name}/{which}/{way.name}\t{value}\n")
                figures.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
