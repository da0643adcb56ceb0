"""Which architectures there are: what the engine knows, and what writes text.

`general.architecture` is one of these words. A test asks the installed llama.cpp about each of
them, and reads in its library whether one is missing here.
"""

from __future__ import annotations

from typing import Final

_KNOWN: Final = """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet
    bloom chameleon chatglm clip codeshell cogvlm cohere2 cohere2moe command-r dbrx deci
    deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 dflash dots1 dots3note dream eagle3
    ernie4_5 ernie4_5-moe eurobert exaone exaone-moe exaone4 falcon falcon-h1 gemma
    gemma-embedding gemma2 gemma3 gemma3n gemma4 gemma4-assistant glm-dsa glm4 glm4moe glm5-next
    gpt-oss gpt2 gptj gptneox granite granite_swa granitehybrid granitemoe graniteswitch grok
    grovemoe hrm_text hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2
    jamba jina-bert-v2 jina-bert-v3 kimi-k3 kimi-linear laguna lfm2 lfm2moe llada llada-moe
    llama llama-embed llama4 maincoder mamba mamba2 maple mellum mimo2 minicpm minicpm3
    minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt muse-glimmer nanbeige
    nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe
    openelm orion paddleocr pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm pockettts
    qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3tts qwen3vl
    qwen3vlmoe qwen4exp refact rnd1 rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3
    spark2_5 stablelm starcoder starcoder2 step35 t5 t5encoder talkie wavtokenizer-dec xverse
"""
KNOWN: Final = frozenset(_KNOWN.split())
"""What the installed llama.cpp loads, or at least has a name for."""

_EMBEDDING: Final = """
    bert eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llama-embed modern-bert neo-bert
    nomic-bert nomic-bert-moe t5encoder
"""
EMBEDDING: Final = frozenset(_EMBEDDING.split())
"""They make vectors of texts."""

_OTHERS: Final = """
    clip cosmos flux hidream hunyuan_video ltxv lumina2 pockettts qwen3tts qwen_image sd1 sd3
    sdxl wan wavtokenizer-dec
"""
NOT_GENERATING: Final = EMBEDDING | frozenset(_OTHERS.split())
"""They embed, look, draw or speak, but write no text."""

DRAFT_HEADS: Final = frozenset({"dflash", "eagle3"})
"""They guess ahead for the weights that they were made for, and write nothing alone."""
