"""Trials: questions that a command once answered wrongly, asked again in variants that nobody chose.

One file a topic, one record a trial: `draw` writes the files of a random variant and gives the commands to run; `judge`
says what is wrong with what came out. `railyard validate trials` draws, runs and judges. A trial is committed, with its
seed, before the fault that it looks for is mended, so that the mending cannot be fitted to the variants.
"""
