"""For how many configs of public repositories a YAML can be emitted, by version; the others are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mindport.config.hf import ModelConfig, read_hf_config
from mindport.config.mindformers.choice import model_within
from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.read import read, read_yaml
from mindport.config.mindformers.settings import RunSettings
from mindport.errors import MindportError
from mindport.targets.mindformers.choice import why_not
from mindport.targets.mindformers.versions import VERSIONS

CORPUS = Path(__file__).parents[3] / ".." / "shared" / "corpus"

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of public configs is not here")


def readable() -> list[ModelConfig]:
    found = []
    for path in sorted(CORPUS.glob("configs/*.json")):
        try:
            found.append(read_hf_config(path))
        except MindportError:
            continue
    return found


def test_public_configs(record_property: Callable[[str, object], None]) -> None:
    """One generation is emitted and read back for each; all are asked."""
    models = readable()
    counts: Counter[str] = Counter()
    for model in models:
        length = RunSettings().length(model.transformer.max_position_embeddings)
        config = model_within(model, length).transformer
        for version in VERSIONS.values():
            able = [name for name in version.generations if not why_not(config, version, name, weights=False)]
            counts[version.name] += bool(able)
            if able:
                text = emit(model, version.name)
                if version.name in ("1.2", "1.9"):
                    assert read(text, version=version.name).transformer == model.transformer
            else:
                with pytest.raises(MindportError) as caught:
                    emit(model, version.name)
                assert caught.value.fix
    print(f"a YAML can be emitted for so many of {len(models)} configs: {dict(counts)}")
    for name, count in counts.items():
        record_property(name, count)
    assert counts["1.9"] >= counts["1.0"] > 0


@pytest.mark.parametrize("path", sorted(CORPUS.glob("training/*.y*ml")), ids=lambda path: path.stem)
def test_public_training_files(path: Path) -> None:
    """Most are for other programs."""
    try:
        said = f"{read_yaml(path).transformer.num_layers} layers"
    except MindportError as error:
        said = error.fix
    assert said
