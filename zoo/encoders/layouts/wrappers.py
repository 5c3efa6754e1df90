"""Finds the encoder in a user's checkpoint, whatever training script, library or wrapper has saved it.

A file is searched for state dicts: in dictionaries in dictionaries (``model``, ``require_state_dict``, ``teacher``),
behind prefixes of modules (``model.backbone.``), and behind what DistributedDataParallel, FSDP, ``torch.compile`` and
Lightning put before names. Whatever has the encoder's names and shapes, through the layout that was asked for or
through one of the libraries', is a candidate; where there is none, through any other layout, unless two of them read
the same part differently. One candidate is taken; of several:

1. the one that ``checkpoint_key`` names;
2. the average of the training (``state_dict_ema`` of timm, ``model_ema`` of DeiT and those that follow it), as timm's
   tools do; of Lightning's WeightAveraging ``require_state_dict``, which is the average, not ``current_model_state``;
3. of student and teacher the one that the method's authors publish: the teacher of DINO, iBOT, Mugs and MSN, the
   student (online or query encoder) of BYOL and MoCo;
4. the one that the layout itself takes.

Otherwise the file is refused, and the message says how to choose. Within the candidate no tensor may be missing or left
over, but for a head that its layout knows. In addition to it there may be heads, queues, losses and other networks of
the method, by their usual names; anything else needs ``checkpoint_key``.

Names are those of lightly 1.5 and 1.6 (its examples and benchmarks), solo-learn (``solo/methods``), PyTorch Lightning
2.6 (``callbacks/weight_averaging.py``), timm 1.0 (``utils/checkpoint_saver.py``) and DeiT (``main.py``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import Tensor

from ...weights.parts import JOIN_ZERO
from ...weights.pickles import GATHER_FSDP, InertObject
from ...weights.store import FileReading
from ..encoder import ERRORS
from .steps import Layout, Misfit, State, hash_tensor, require_state_dict

Role: TypeAlias = Literal["teacher", "student", ""]
Path: TypeAlias = tuple[str, ...]

COUNTER = "num_batches_tracked"  # of BatchNorm; does not affect features, and JAX has none
LIBRARIES = ("zoo", "torchvision", "timm", "torchvision_children", "torchvision_vit")
"""Layouts that are tried after the one that the card names."""

_WRAPPERS = frozenset(
    ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module")
)  # DistributedDataParallel and AveragedModel, torch.compile, FSDP, activation checkpointing, Lightning's strategies
_AVERAGES = ("state_dict_ema", "model_ema")
_PLAIN = ("state_dict", "model")
_NOT_AVERAGED = "current_model_state"
_PUBLISHED: dict[str, Role] = {
    **dict.fromkeys(("dino", "dinov2", "ibot", "ijepa", "mugs", "msn"), "teacher"),
    **dict.fromkeys(("byol", "moco"), "student"),
}
_TEACHERS = frozenset(("teacher", "momentum", "target", "key", "ema", "k"))
_STUDENTS = frozenset(("student", "online", "anchor", "query", "q"))
_OF_MOCO = (("encoder_q", "encoder_k"), ("base_encoder", "momentum_encoder"))  # which publishes the first
_BESIDE = (
    _TEACHERS
    | _STUDENTS
    | frozenset(("head", "heads", "neck", "projection", "projector", "proj", "prediction", "predictor", "pred"))
    | frozenset(("classifier", "classification", "fc", "linear", "probe", "knn", "decoder", "mask", "masked"))
    | frozenset(("criterion", "loss", "center", "temperature", "logit", "queue", "queues", "memory", "bank"))
    | frozenset(("prototype", "prototypes", "smog", "metric", "metrics", "averaged"))
)
"""Words in the names of what methods have in addition to their encoder."""

_NESTED = ("state_dict", "model", "target_encoder")  # keys where layouts look; a file may use others
_MOST_NESTED = 6
_MOST_NAMED = 3


def find_published_role(objective: object) -> Role:
    """Which of a method's two networks its authors publish; empty if it has one, or is not known."""
    return _PUBLISHED.get(objective, "") if isinstance(objective, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateCandidate:
    """Tensors of a file that have the encoder's names and shapes."""

    state: State
    layout: str
    path: Path  # of dictionaries
    prefix: str  # of modules, with a dot at the end
    is_whole: bool  # the layout took it from the file as it is
    unwrapped: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def key(self) -> str:
        """Where it is: dictionaries, then modules."""
        return "/".join((*self.path, self.prefix.removesuffix("."))).removesuffix("/")

    @property
    def role(self) -> Role:
        """What the keys and modules on the way say of it."""
        words = set(re.findall("[a-z]+", self.key.lower()))
        return "teacher" if words & _TEACHERS else "student" if words & _STUDENTS else ""

    def is_meant_by(self, key: str) -> bool:
        """True if ``key`` is where it is, or one of the steps of the way."""
        return key in (self.key, self.prefix, self.prefix.removesuffix("."), *self.path, *self.prefix.split("."))


class AmbiguousMisfit(Misfit):
    """Something in a file fits, and which is meant, or what lies next to it, is unclear: what it "holds" or "has"."""


def find_encoder(
    contents: Sequence[Any],
    target: Mapping[str, Tensor],
    *,
    layouts: Mapping[str, Layout],
    wanted: Sequence[str],
    is_only: bool = False,
    checkpoint_key: str = "",
    role: Role = "",
) -> tuple[StateCandidate, FileReading]:
    """The encoder in a user's file, by names and shapes alone, and how it was read.

    ``contents`` are those of the file and its companions; ``target`` has the encoder's tensors by the names that
    layouts give, those of the backbone without ``backbone.``; the layouts ``wanted`` are tried, the best one first,
    then, unless ``is_only``, all the others. ``checkpoint_key`` and ``role`` choose between candidates.

    Misfit, which names the closest layout, if nothing fits; Undecided, with the way to choose, if several candidates do
    and no rule decides.
    """
    file = _FileSearch(contents, target)
    fitting = file.candidates({name: layouts[name] for name in wanted}, checkpoint_key)
    is_found = not fitting and not is_only
    if is_found:
        fitting = file.candidates({name: layouts[name] for name in layouts if name not in wanted}, checkpoint_key)
        _require_one_layout(fitting)
    if not fitting:
        for path, state in file.sources.items():
            n_empty = sum(not tensor.numel() for tensor in state.values())
            if 2 * n_empty > len(state):
                raise AmbiguousMisfit(
                    f"has {n_empty} empty tensors {_where(path)}as ZeRO-3 of DeepSpeed leaves: {JOIN_ZERO}"
                )
            if any(name.rpartition(".")[2] in ("_flat_param", "flat_param") for name in state):
                raise AmbiguousMisfit(f"has flat parameters {_where(path)}as FSDP keeps of one process: {GATHER_FSDP}")
        raise Misfit(file.closest(layouts, wanted))
    if checkpoint_key:
        meant = [candidate for candidate in fitting if candidate.is_meant_by(checkpoint_key)]
        if not meant:
            known = " or ".join(sorted(repr(candidate.key) for candidate in fitting))
            raise AmbiguousMisfit(f"has nothing that fits at {checkpoint_key!r}, expected {known} (checkpoint_key)")
    else:
        meant = fitting
    steps = {step for candidate in meant for step in (*candidate.path, *candidate.prefix.split("."))}
    if any(steps.issuperset(names) for names in _OF_MOCO):
        role = "student"  # whatever the method of the card
    taken, reason = _chosen(meant, role)
    if role and taken.role not in ("", role) and not checkpoint_key:
        raise AmbiguousMisfit(
            f"has an encoder that fits at {taken.key!r}, the {taken.role}, but the method publishes its {role}; to "
            f"take it all the same, say checkpoint_key={taken.key!r} (--checkpoint-key)"
        )
    is_named = bool(checkpoint_key) and checkpoint_key not in taken.path and bool(taken.prefix)  # by its own module
    beside = [] if is_named else file.strangers(taken, fitting)
    if beside:
        listed = ", ".join(map(repr, beside[:_MOST_NAMED]))
        raise AmbiguousMisfit(
            f"has an encoder that fits at {taken.key!r}, but next to it {listed}, which is left over; if that is no "
            f"part of the encoder, say checkpoint_key={taken.key!r} (--checkpoint-key)"
        )
    others = tuple(candidate.key for candidate in fitting if candidate is not taken)
    reading = FileReading(
        layout=taken.layout,
        is_found=is_found,
        checkpoint_key=taken.key,
        reason=("what was asked for" if checkpoint_key else reason) if others else "",
        others=others,
        unwrapped=taken.unwrapped,
        left_out=taken.left_out,
    )
    return taken, reading


def has_fitting_layout(content: Any, target: Mapping[str, Tensor], *, layouts: Mapping[str, Layout]) -> bool:
    """True if a file, without any companion, has the encoder's names and shapes through one of these layouts."""
    return bool(_FileSearch([content], target).candidates(layouts, ""))


def _where(path: Path) -> str:
    return f"at {'/'.join(path)!r}, " if path else ""


def _require_one_layout(candidates: Sequence[StateCandidate]) -> None:
    """Refuses layouts that make different tensors of the same part of a file; of names alone nothing says which."""
    for key in dict.fromkeys(candidate.key for candidate in candidates):
        names = list(dict.fromkeys(candidate.layout for candidate in candidates if candidate.key == key))
        if len(names) > 1:
            raise AmbiguousMisfit(
                f"fits{f' at {key!r}' if key else ''} as a file of the layouts {' and '.join(map(repr, names))}, which "
                f"read it differently; say which: layout={names[0]!r} (--layout)"
            )


def _chosen(candidates: Sequence[StateCandidate], role: Role) -> tuple[StateCandidate, str]:
    """The candidate that the rules take, and the rule."""
    left, reason = list(candidates), ""
    if len(left) > 1:
        last = [candidate.path[-1] if candidate.path else "" for candidate in left]
        if any(key in _AVERAGES for key in last) and all(key in _AVERAGES + _PLAIN for key in last):
            left = [candidate for candidate, key in zip(left, last, strict=True) if key in _AVERAGES]
            reason = "the average of the training (EMA), as timm's own tools do"
        elif _NOT_AVERAGED in last and "state_dict" in last:
            left = [candidate for candidate, key in zip(left, last, strict=True) if key != _NOT_AVERAGED]
            reason = "the average that Lightning's WeightAveraging keeps"
    if len(left) > 1 and role:
        roles = [candidate.role for candidate in left]
        for silent, spoken in (("teacher", "student"), ("student", "teacher")):
            if roles.count("") == 1 and set(roles) == {"", spoken}:  # the one next to a teacher is the student
                roles[roles.index("")] = silent  # type: ignore[call-overload]
                break
        chosen = [candidate for candidate, its in zip(left, roles, strict=True) if its == role]
        if chosen:
            left, reason = chosen, f"the {role}, which the method publishes"
    whole = [candidate for candidate in left if candidate.is_whole]
    if len(left) > 1 and len(whole) == 1 and all(candidate.path == whole[0].path for candidate in left):
        left, reason = whole, f"what the layout {whole[0].layout!r} takes"
    if len(left) > 1:
        keys = [candidate.key for candidate in left]
        listed = " and ".join(map(repr, keys))
        raise AmbiguousMisfit(
            f"holds {len(left)} encoders that fit, at {listed}, and nothing says which is meant; choose with "
            f"checkpoint_key={keys[0]!r} (--checkpoint-key)"
        )
    return left[0], reason


@dataclass(frozen=True, slots=True)
class _LayoutAttempt:
    """What a layout makes of a file or of a part of it."""

    layout: str
    state: State
    path: Path | None  # None: of the file as it is
    prefix: str


class _FileSearch:
    """A file that is searched."""

    def __init__(self, contents: Sequence[Any], target: Mapping[str, Tensor]) -> None:
        self.target = target
        self.companions = [clean_names(content) for content in contents[1:]]
        self.content = clean_names(contents[0])
        self.sources = dict(find_state_dicts(self.content))
        self.wrappers = {path: _wrappers(state) for path, state in find_state_dicts(contents[0])}
        self.places: dict[int, list[tuple[Path, str]]] = {}  # of tensors, by where their numbers are
        for path, state in self.sources.items():
            for name, tensor in state.items():
                if tensor.numel():
                    self.places.setdefault(tensor.data_ptr(), []).append((path, name))

    def candidates(self, layouts: Mapping[str, Layout], key: str) -> list[StateCandidate]:
        """What fits through any of these layouts; the same tensors once, through the first one."""
        distinct: dict[tuple[object, ...], StateCandidate] = {}
        for attempt in self._attempts(layouts):
            if not _differences(attempt.state, self.target):
                same = tuple(self._place(attempt.state.get(name)) for name in self.target)
                candidate = self._candidate(attempt)
                if same not in distinct or (key and candidate.is_meant_by(key) and not distinct[same].is_meant_by(key)):
                    distinct[same] = candidate
        return list(distinct.values())

    def strangers(self, candidate: StateCandidate, fitting: Sequence[StateCandidate]) -> list[str]:
        """What lies next to a candidate and is neither another one nor what methods are known to have there."""
        if candidate.is_whole or not candidate.prefix:  # the layout declares what it drops
            return []
        known = [other.prefix for other in fitting]
        beside = [
            name
            for name in candidate.left_out
            if not name.startswith(candidate.prefix) and not any(prefix.startswith(f"{name}.") for prefix in known)
        ]
        return [name for name in beside if not set(re.findall("[a-z]+", name.rpartition(".")[2].lower())) & _BESIDE]

    def closest(self, layouts: Mapping[str, Layout], wanted: Sequence[str]) -> str:
        """How the file differs from what would fit."""
        best: tuple[tuple[int, bool], _LayoutAttempt, list[str]] | None = None
        order = [*wanted, *(name for name in layouts if name not in wanted)]
        for attempt in self._attempts({name: layouts[name] for name in order}, share=8):
            differences = _differences(attempt.state, self.target)
            is_part = not differences and attempt.path is not None  # a layout of the whole file says which one is meant
            distance = len(differences), is_part
            if best is None or distance < best[0]:
                best = distance, attempt, differences
        if best is None:
            return self._contents()
        (n, _), attempt, differences = best
        nearest = self._candidate(attempt)
        where = f" at {nearest.key!r}" if nearest.key else ""
        if not n:
            return (
                f"it fits as a file of the layout {nearest.layout!r}{where}: say layout={nearest.layout!r} (--layout)"
            )
        named = "; ".join(differences[:_MOST_NAMED])
        return (
            f"closest is the layout {nearest.layout!r}{where}, where {n} tensors differ from the {len(self.target)} "
            f"expected: {named}{'; ...' if n > _MOST_NAMED else ''}"
        )

    def _contents(self) -> str:
        if not isinstance(self.content, Mapping):
            kind = self.content.name if isinstance(self.content, InertObject) else type(self.content).__name__
            return f"found {kind!r}, expected tensors by name; save them: torch.save(module.state_dict(), FILE)"
        path, state = max(self.sources.items(), key=lambda item: len(item[1]), default=((), self.content))
        names = ", ".join(repr(str(name)[:60]) for name in list(state)[:_MOST_NAMED])
        if not self.sources:
            return f"found the keys {names or 'of nothing'} and no tensors by name, expected a state dict"
        where = f" at {'/'.join(path)!r}" if path else ""
        hint = "of JAX: save the state_dict() of timm.create_model(NAME, checkpoint_path=FILE), if that reads it"
        jax = f" and are {hint}" if any("/" in name for name in state) else ""
        return f"no layout finds an encoder in its {len(state)} tensors{where}, which begin with {names}{jax}"

    def _attempts(self, layouts: Mapping[str, Layout], *, share: int = 2) -> Iterator[_LayoutAttempt]:
        """What these layouts make of the file, and of all parts that have one in ``share`` of the tensors needed."""
        for name, layout in layouts.items():
            if layout.n_companions not in (0, len(self.companions)):
                continue
            companions = self.companions[: layout.n_companions]
            state = self._applied(layout, self.content, companions)
            if state is not None:
                yield _LayoutAttempt(name, state, path=None, prefix="")
            for path, source in self.sources.items():
                # of an encoder of several files, the one that is searched may hold a few tensors
                for prefix in self._prefixes(source, len(self.target) if layout.n_companions else share):
                    if prefix:
                        inner = {name.removeprefix(prefix): source[name] for name in source if name.startswith(prefix)}
                    else:  # AveragedModel stores the number of averaged models next to its module
                        inner = {name: tensor for name, tensor in source.items() if name != "n_averaged"}
                    for content in (inner, *({key: inner} for key in _NESTED)):
                        state = self._applied(layout, content, companions)
                        if state is not None:
                            yield _LayoutAttempt(name, state, path=path, prefix=prefix)

    def _applied(self, layout: Layout, content: Any, companions: Sequence[Any]) -> State | None:
        try:
            state = layout.convert(content, *companions, target=self.target)
        except (Misfit, *ERRORS):  # a layout that is not the file's may find tensors of any shape
            return None
        return state if any(name in self.target for name in state) else None

    def _candidate(self, attempt: _LayoutAttempt) -> StateCandidate:
        """An attempt, and from where in the file its tensors are."""
        used = [place for tensor in attempt.state.values() for place in self.places.get(tensor.data_ptr(), ())]
        path = attempt.path
        if path is None:
            votes = Counter(where for where, _ in used)
            path = votes.most_common(1)[0][0] if votes else ()
        names = {name for where, name in used if where == path}
        source = self.sources.get(path, {})
        return StateCandidate(
            state=attempt.state,
            layout=attempt.layout,
            path=path,
            prefix=_common_prefix(names) if attempt.path is None else attempt.prefix,
            is_whole=attempt.path is None,
            unwrapped=self.wrappers.get(path, ()),
            left_out=_groups([name for name in source if name not in names], names),
        )

    def _prefixes(self, source: State, share: int) -> list[str]:
        """Modules below which there are enough tensors for the encoder, the outermost first."""
        enough = sum(not name.endswith(COUNTER) for name in self.target) // share
        below_each: Counter[str] = Counter()
        for name in source:
            parts = name.split(".")
            below_each.update("".join(f"{part}." for part in parts[:depth]) for depth in range(len(parts)))
        return sorted((prefix for prefix, n in below_each.items() if n >= max(enough, 1)), key=lambda p: (len(p), p))

    def _place(self, tensor: Tensor | None) -> object:
        """Where in the file a tensor is; of one that the layout has computed a hash of its numbers."""
        if tensor is None or not tensor.numel():
            return None
        return tensor.data_ptr() if tensor.data_ptr() in self.places else hash_tensor(tensor)


def _differences(state: State, target: Mapping[str, Tensor]) -> list[str]:
    """What is missing, of another shape or left over, in words."""
    listed = []
    for name, tensor in target.items():
        if name not in state:
            if not name.endswith(COUNTER):
                listed.append(f"{name!r} is missing")
        elif state[name].shape != tensor.shape:
            listed.append(f"{name!r} has shape {tuple(state[name].shape)}, expected {tuple(tensor.shape)}")
    return listed + [f"{name!r} is left over" for name in state if name not in target]


def find_state_dicts(content: Any, path: Path = ()) -> Iterator[tuple[Path, State]]:
    """Every dictionary of tensors by name, by the keys that lead to it."""
    if not isinstance(content, Mapping) or len(path) > _MOST_NESTED:
        return
    if content and all(isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()):
        yield path, require_state_dict(content)
        return
    for key, value in content.items():
        if isinstance(key, str):
            yield from find_state_dicts(value, (*path, key))


def clean_names(content: Any, depth: int = 0) -> Any:
    """The same content with the names that its networks had before they were wrapped."""
    if not isinstance(content, Mapping) or depth > _MOST_NESTED:
        return content
    if content and all(isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()):
        names = {_unwrapped(name): tensor for name, tensor in content.items()}
        return names if len(names) == len(content) else content
    return {key: clean_names(value, depth + 1) for key, value in content.items()}


def _unwrapped(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _wrappers(state: State) -> tuple[str, ...]:
    return tuple(sorted({f"{part}." for name in state for part in name.split(".") if part in _WRAPPERS}))


def _common_prefix(names: set[str]) -> str:
    """The modules that all these names are in."""
    parts = [name.split(".")[:-1] for name in names]
    shared = []
    for step in zip(*parts, strict=False):
        if len(set(step)) > 1:
            break
        shared.append(f"{step[0]}.")
    return "".join(shared)


def _groups(left: Sequence[str], used: set[str]) -> tuple[str, ...]:
    """The outermost modules of names that hold nothing which is used, in the order of the file."""
    busy = {".".join(name.split(".")[:depth]) for name in used for depth in range(1, name.count(".") + 1)}
    groups: dict[str, None] = {}
    for name in left:
        parts = name.split(".")
        outermost = next((".".join(parts[:n]) for n in range(1, len(parts)) if ".".join(parts[:n]) not in busy), name)
        groups[outermost] = None
    return tuple(groups)
