#!/bin/sh
# Guess: load_dataset("parquet") of files that ClassLabel columns were saved to keeps the name of each row's class, or
# refuses files whose names are in another order, as concatenate_datasets does.
#
# Behaviour (datasets 5.2.0): the names of the first file hold for all files and splits; the numbers stay. Where train.parquet
# says 0 cat, 1 dog and test.parquet 0 dog, 1 cat (names by order of appearance, two exports, one class more in the
# middle), every test image is called by the other name. No warning; a fixed head is then right on 0 % of them.
# concatenate_datasets of the same two sets raises. Fewer names in the first file than in the second are no error either.
# Output seen: the test split's cat, dog, cat came back as dog, cat, dog; of bird, cat, dog as cat, dog and no name for 2.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet datasets==5.2.0 numpy==2.4.6
cd "$work"
HF_HOME="$work/home" HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import datasets
from datasets import ClassLabel, Dataset, Features

datasets.disable_progress_bars()


def make(names, labels):
    column = ClassLabel(names=names)
    return Dataset.from_dict({"label": column.str2int(labels)}, features=Features({"label": column}))


def name_of(rows, number):
    names = rows.features["label"].names
    return names[number] if number < len(names) else None


train = make(["cat", "dog"], ["cat", "dog", "cat"])
found = {}
for case, names, labels in (
    ("other order", ["dog", "cat"], ["cat", "dog", "cat"]),
    ("one more", ["bird", "cat", "dog"], ["bird", "cat", "dog"]),
):
    train.to_parquet("train.parquet")
    make(names, labels).to_parquet("test.parquet")
    loaded = datasets.load_dataset("parquet", data_files={"train": "train.parquet", "test": "test.parquet"})["test"]
    found[case] = [name_of(loaded, number) for number in loaded["label"]]
print(found)
assert found == {"other order": ["dog", "cat", "dog"], "one more": ["cat", "dog", None]}, found
try:
    datasets.concatenate_datasets([train, make(["dog", "cat"], ["cat"])])
except ValueError as error:
    print(f"concatenate_datasets: {error}"[:100])
else:
    raise SystemExit("concatenate_datasets took them")
PY
