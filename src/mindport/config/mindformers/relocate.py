"""Keys of older articles: moved to where they are read, or refused, one by one."""
from dataclasses import dataclass
@dataclass(frozen=True)
class Moved: ...
def relocate(document): return []
