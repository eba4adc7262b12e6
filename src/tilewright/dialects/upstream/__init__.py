"""The dialects around ``nvgpu``, where xDSL lacks what kernels need or upstream prints.

xDSL's ``gpu`` has no custom syntax and lacks some operations; it has no ``nvvm``; a few operations
of ``memref`` and ``vector`` have no custom form or no class. What is not declared here is xDSL's.
"""
