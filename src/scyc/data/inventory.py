"""Which data sets lie where, and whether each of their files is the published one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scyc.data.checksum import verified
from scyc.data.cifar import FORMS, Form, contents, find
from scyc.data.dataset import DataError, Missing
from scyc.data.digits import FILE as DIGITS
from scyc.data.digits import KNOWN as KNOWN_DIGITS
from scyc.data.idx import FASHION_MNIST, MNIST, IdxSet, idx_files
from scyc.data.tiny_imagenet import Extent, find_tiny, read_tiny

OK = "ok"


@dataclass(frozen=True)
class Row:
    """A data set and the folder, or the file, it lies in: None where no root has it."""

    name: str
    place: Path | None


State = tuple[Path, str]  # a file and `ok`, or what is wrong with it


def check_digits(root: Path) -> Iterator[State]:
    yield DIGITS, state(partial(verified, DIGITS, KNOWN_DIGITS))


def check_idx(known: IdxSet, root: Path) -> Iterator[State]:
    for name, path in idx_files(root, known).items():
        yield path, state(partial(verified, path, known.files[name]))


def check_cifar(forms: tuple[Form, ...], root: Path) -> Iterator[State]:
    place, form = find(root, forms)
    if place.is_dir():
        for name, known in form.files.items():
            yield place / name, state(partial(verified, place / name, known))
    else:
        yield place, state(partial(list, contents(place, form)))


def check_tiny(extent: Extent, root: Path) -> Iterator[State]:
    place = find_tiny(root)
    yield place, state(partial(read_tiny, place, extent, ()))


def state(read: Callable[[], object]) -> str:
    try:
        read()
    except DataError as error:
        return str(error)
    return OK


def place_idx(known: IdxSet, root: Path) -> Path:
    return next(iter(idx_files(root, known).values())).parent


@dataclass(frozen=True)
class Published:
    """A set whose files are published: where a root has it, and their states; Missing where the root has not all."""

    place: Callable[[Path], Path]
    check: Callable[[Path], Iterable[State]]


PUBLISHED = {
    "digits": Published(lambda root: DIGITS, check_digits),
    "fashion-mnist": Published(partial(place_idx, FASHION_MNIST), partial(check_idx, FASHION_MNIST)),
    "mnist": Published(partial(place_idx, MNIST), partial(check_idx, MNIST)),
    "cifar10": Published(lambda root: find(root, FORMS)[0], partial(check_cifar, FORMS)),
    "imagenet200": Published(find_tiny, partial(check_tiny, Extent())),
}


def check(name: str, roots: tuple[Path, ...], published: Mapping[str, Published] = PUBLISHED) -> list[State]:
    """Every file of the set in the first root that has it, with `ok` or what is wrong; else the one that is missing."""
    if name not in published:
        raise ValueError(f"data set {name!r} has no published files to check; those that have: {', '.join(published)}")
    absent = []
    for root in roots or (Path(),):
        try:
            return list(published[name].check(root))
        except Missing as error:
            absent.append(error)
    return [(max(absent, key=lambda error: error.found).file, "missing")]


def present(roots: tuple[Path, ...], published: Mapping[str, Published] = PUBLISHED) -> list[Row]:
    """Every published set and the first place that has it; nothing is read."""
    return [Row(name, first(one.place, roots)) for name, one in published.items()]


def first(place: Callable[[Path], Path], roots: tuple[Path, ...]) -> Path | None:
    for root in roots or (Path(),):
        try:
            return place(root)
        except Missing:
            continue
    return None
