"""The processes of one distributed training: every one of them must prune alike."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor
from torch import distributed as dist


def processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@torch.no_grad()
def averaged(grads: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The mean over the processes, whose batches differ; itself where there is one process."""
    if processes() == 1:
        return grads
    means = {name: grad.clone() for name, grad in grads.items()}
    for mean in means.values():
        dist.all_reduce(mean)
        mean /= processes()
    return means


def agreed(masks: Mapping[str, Tensor]) -> None:
    """Refuse masks that differ between processes: their networks would drift apart unnoticed."""
    if processes() == 1:
        return
    own = digest(masks)
    others: list[str] = [own] * processes()
    dist.all_gather_object(others, own)
    if others != [own] * len(others):
        raise ValueError(
            "the processes chose different masks: their weights differ; wrap the network in DistributedDataParallel "
            "before training, so that all start from the same"
        )


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Sha256 of names and content."""
    content = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous().view(-1).view(torch.uint8)  # numpy has no bfloat16
        content.update(name.encode() + value.numpy().tobytes())
    return content.hexdigest()
