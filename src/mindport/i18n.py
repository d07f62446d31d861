"""Messages in English and Simplified Chinese.

Every message is written once, in English, as a template at the place that raises it; `locale/zh_CN.json` maps the
template to its Chinese wording. A test walks the source and fails on a template without a translation or with
other placeholders.
"""

from __future__ import annotations

import json
import locale
import os
from functools import lru_cache
from pathlib import Path

_CATALOGUES = Path(__file__).parent / "locale"


def language() -> str:
    """The language of messages: `MINDPORT_LANG` if set, else the locale; "zh_CN" or "en"."""
    wanted = os.environ.get("MINDPORT_LANG") or os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES")
    wanted = wanted or os.environ.get("LANG") or locale.getlocale()[0] or "en"
    return "zh_CN" if wanted.lower().startswith(("zh", "chinese")) else "en"


@lru_cache(maxsize=2)
def _catalogue(lang: str) -> dict[str, str]:
    path = _CATALOGUES / f"{lang}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def tr(template: str, /, **values: object) -> str:
    """The message in the user's language, with `{name}` placeholders filled from `values`."""
    text = _catalogue(language()).get(template, template)
    return text.format(**values) if values else text
