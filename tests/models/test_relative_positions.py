"""Buckets of relative positions against transformers' own, distance by distance."""

from __future__ import annotations

import numpy as np
import pytest

from mindport.models.relative_positions import bucket

SIZES = [
    (buckets, reach) for buckets in (2, 3, 5, 16, 32, 48, 64, 128, 256) for reach in (66, 130, 256, 512, 1024, 4096)
]


@pytest.mark.parametrize(("buckets", "reach"), [size for size in SIZES if size[1] - 1 > size[0] // 2])
def test_every_distance(buckets: int, reach: int) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    distance = np.arange(-2 * reach, 2 * reach + 1)
    wanted = theirs.make_log_bucket_position(torch.from_numpy(distance), buckets, reach).long().numpy()
    # Beyond the span all are alike: the model takes its first or last row.
    assert np.array_equal(*(np.clip(b, -buckets, buckets - 1) for b in (bucket(distance, buckets, reach), wanted)))


def test_small_distances_and_the_edge() -> None:
    distance = np.arange(-300, 300)
    assert np.array_equal(bucket(distance, None, 512), distance)
    found = dict(zip(distance.tolist(), bucket(distance, 16, 40).tolist(), strict=True))
    assert [found[d] for d in range(-8, 9)] == list(range(-8, 9))
    assert found[39] == 15
    assert found[40] > 15
    assert all(found[-d] == -b for d, b in found.items() if d > -300)
