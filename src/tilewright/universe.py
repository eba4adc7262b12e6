"""The entry point by which stock xDSL tools find our dialects."""

from xdsl.universe import Universe


def _cuda_tile():
    from tilewright.dialects.cuda_tile import load

    return load()


UNIVERSE = Universe(name="tilewright", all_dialects={"cuda_tile": _cuda_tile}, all_passes={})
