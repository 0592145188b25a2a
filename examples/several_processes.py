"""Find wrong labels in several processes, under DDP or FSDP2: each has a temperature for every row, or for its part.

    torchrun --nproc-per-node 2 examples/several_processes.py          # DDP, a copy of the table each
    torchrun --nproc-per-node 2 examples/several_processes.py --fsdp   # FSDP2, a part of the table each

Only the lines that wrap the model differ from training alone. The table needs no wrapping: it is no parameter, and
keeps its copies equal, or its parts in their place, by itself.
"""

import sys

import torch
from torch import distributed as dist, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import likely

ROWS, WRONG = 1024, 64


def main(*, fsdp: bool) -> None:
    device = torch.device("cuda", dist.get_rank()) if torch.cuda.is_available() else torch.device("cpu")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 8, generator=generator)
    labels = (x[:, :2].sum(1) > 0).long()
    wrong = torch.randperm(ROWS, generator=generator)[:WRONG]
    labels[wrong] = 1 - labels[wrong]
    dataset = likely.IndexedDataset(TensorDataset(x, labels))
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    temperature = likely.Data(len(dataset), lr=0.2, sharded=fsdp)
    step = likely.Supervised(model, likely.SoftmaxLoss(temperature=temperature)).to(device)
    if fsdp:
        mesh = dist.device_mesh.init_device_mesh(device.type, (dist.get_world_size(),))
        for layer in (model[0], model[2], step):
            fully_shard(layer, mesh=mesh)
    wrapped = step if fsdp else DistributedDataParallel(step)

    optimizer = torch.optim.Adam(likely.param_groups(model, step.loss_fn, lr=0.02))
    for epoch in range(12):
        loader.sampler.set_epoch(epoch)
        for inputs, label, index in loader:
            optimizer.zero_grad()
            wrapped(inputs.to(device), label.to(device), index=index).backward()
            optimizer.step()

    shard = temperature.table.shard
    first = shard.first if shard else 0
    values = temperature.value
    mine = wrong[(wrong >= first) & (wrong < first + len(values))]
    hottest = first + values.topk(len(mine)).indices.cpu()
    found = torch.isin(mine, hottest).sum()
    print(
        f"process {dist.get_rank()}: {found} of {len(mine)} wrong labels among the hottest of {len(values)} rows\n",
        end="",
    )
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        main(fsdp="--fsdp" in sys.argv)
    finally:
        dist.destroy_process_group()
