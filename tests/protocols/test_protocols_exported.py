"""The room's public face is exactly what it says."""

import wardround.protocols as protocols


def test_all_is_sorted_and_real() -> None:
    assert list(protocols.__all__) == sorted(protocols.__all__)
    assert all(hasattr(protocols, name) for name in protocols.__all__)
