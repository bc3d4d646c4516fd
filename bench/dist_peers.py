#!/usr/bin/env python3
"""What dist_cards.ts measures, by PyTorch: a line of JSON each.
usage: torchrun --nproc-per-node N dist_peers.py   (N cards of one host)"""
import json, os, statistics, time
import torch, torch.distributed as dist, torch.nn as nn, torch.nn.functional as F
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(1)


def say(**row):
    if rank == 0:
        print(json.dumps({"peer": "torch", "cards": size, **row}), flush=True)


def median(call, steps=10):
    times = []
    for i in range(3 + steps):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        if i >= 3:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, t, self.heads, 3, c // self.heads).permute(3, 0, 2, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary=50304, context=1024, layers=12, heads=12, width=768):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), tokens.flatten())


for nbytes in (1 << 20, 16 << 20, 256 << 20) if size > 1 else ():
    t = torch.ones(nbytes // 4, device="cuda")
    ms = median(lambda: [dist.all_reduce(t, op=dist.ReduceOp.MAX) for _ in range(20)]) / 20
    say(name=f"allReduce {nbytes >> 10} KiB", ms=ms, gbs=2 * (size - 1) / size * nbytes / ms / 1e6)



def train(name, model, net):
    """Times a step of `model`, whose parameters are those of `net`."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 50304, (8, 1024), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens)
        loss.backward()
        optimizer.step()

    ms = median(step)
    say(name=name, ms=ms, texts_s=8 * size / ms * 1e3)


for compiled in (False, True):
    net = Gpt().cuda()
    model = DistributedDataParallel(net, device_ids=[torch.cuda.current_device()]) if size > 1 else net
    train("gpt2 compiled" if compiled else "gpt2", torch.compile(model) if compiled else model, net)
    del model, net
    torch.cuda.empty_cache()
if size > 1:
    net = Gpt().cuda()
    for block in net.blocks:
        fully_shard(block)
    fully_shard(net)
    train("gpt2 divided", net, net)
dist.destroy_process_group()
