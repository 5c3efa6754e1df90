#!/bin/sh
# Guess: correcting labels in a Lance data set by update() leaves the rows where they are, so that features that were computed
# before, an array with one row per image, still belong to them.
#
# Behaviour (pylance 14.0.2): update() and merge_insert() write the changed rows anew, behind all others; to_table(), take(),
# to_batches() and len() have the new order. One corrected label moves every image behind it up by one: the features of most
# images then stand beside another's label, with equal lengths and without an error. Keep an id beside the features.
# Output seen: ids 0 1 2 3 4 5; after update of id 2: 0 1 3 4 5 2; after merge_insert of 1 and 4: 0 2 3 5 1 4.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pylance==14.0.2 pyarrow==25.0.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'PY'
import lance
import pyarrow as pa

rows = pa.table({"id": range(6), "label": list("aabbcc")})
updated, merged = (lance.write_dataset(rows, name) for name in ("updated.lance", "merged.lance"))
updated.update({"label": "'z'"}, where="id = 2")
merged.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [1, 4], "label": ["y", "y"]}))
order = [one.to_table()["id"].to_pylist() for one in (updated, merged)]
taken = updated.take([2])["id"].to_pylist()
print(order, taken)
assert order == [[0, 1, 3, 4, 5, 2], [0, 2, 3, 5, 1, 4]] and taken == [3], (order, taken)
PY
