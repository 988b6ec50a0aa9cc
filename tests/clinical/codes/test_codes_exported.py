"""The room's public face is exactly what it says."""

import wardround.clinical.codes as codes


def test_all_is_sorted_and_real() -> None:
    assert list(codes.__all__) == sorted(codes.__all__)
    assert all(hasattr(codes, name) for name in codes.__all__)
    public = {
        n
        for n, v in vars(codes).items()
        if not n.startswith("_") and getattr(v, "__module__", "").startswith("wardround.clinical.codes.")
    }
    assert public == set(codes.__all__)
