"""Modules that are known from the disk: launched without being read, with the results and errors of those that are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions, TileIRError
from tilewright.cpu.runtime import kernels
from tilewright.cpu.runtime.module_records import find_module, module_key
from tilewright.launching.disk_cache import DiskCache, disk_cache
from tilewright.launching.machine import machine_named
from tilewright.launching.sources import ModuleSource

TEXT = """
cuda_tile.module @kernels {
  global @bias alignment = 128 <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
  entry @add(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %scale: tile<f32>, %n: tile<i32>) {
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %v = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token
    %w = mulf %v#0, %scale : tile<f32>
    %t = store_ptr_tko weak %out, %w : tile<ptr<f32>>, tile<f32> -> token
    return
  }
  entry @bias_of(%out: tile<ptr<f32>>) {
    %p = get_global @bias : tile<ptr<f32>>
    %v, %s = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %t = store_ptr_tko weak %out, %v : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""
TEXT = TEXT.replace(
    "    %v = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token\n    %w = mulf %v#0, %scale",
    "    %v, %s = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token\n    %w = mulf %v, %scale",
)
