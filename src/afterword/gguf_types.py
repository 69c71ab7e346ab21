"""How the weights of a GGUF file are quantised, by its entry `general.file_type`: the names that files carry too."""

FILE_TYPES = {
    **{0: "F32", 1: "F16", 32: "BF16", 2: "Q4_0", 3: "Q4_1", 8: "Q5_0", 9: "Q5_1", 7: "Q8_0", 40: "Q1_0"},
    **{10: "Q2_K", 21: "Q2_K_S", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M"},
    **{16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 24: "IQ1_S", 31: "IQ1_M", 19: "IQ2_XXS", 20: "IQ2_XS", 28: "IQ2_S"},
    **{29: "IQ2_M", 23: "IQ3_XXS", 22: "IQ3_XS", 26: "IQ3_S", 27: "IQ3_M", 25: "IQ4_NL", 30: "IQ4_XS"},
    **{36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4", 39: "NVFP4"},
}
"""A mixture is called after what most of its weights are."""
