"""The room's public face is exactly what it says."""

import wardround.clinical.protocols as protocols


def test_all_names_are_real_and_named_once() -> None:
    assert len(set(protocols.__all__)) == len(protocols.__all__)
    assert all(hasattr(protocols, name) for name in protocols.__all__)
