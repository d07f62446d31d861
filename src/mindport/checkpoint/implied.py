from dataclasses import dataclass


@dataclass(frozen=True)
class Implied:
    field: str


def implied(*a):
    return []


def describe(x):
    return ""
