"""Text by the word: common English words, each of them about one token for vocabularies of this kind.

The same source of chance gives the same text, so every server gets the same prompts.
"""

from __future__ import annotations

import random

TEXT = """
the of and to in for that with on this are from have you not but they what all were when your can said there use
each which she how their will other about out many then them these some her would make like him into time has
look two more write see number way could people than first water been call who oil its now find long down day
did get come made may part over new sound take only little work know place year live back give most very after
thing our just name good sentence man think say great where help through much before line right too mean old any
same tell boy follow came want show also around form three small set put end does another well large must big
even such because turn here why ask went men read need land different home us move try kind hand picture again
change off play spell air away animal house point page letter mother answer found study still learn should world
high every near add food between own below country plant last school father keep tree never start city earth eye
light thought head under story saw left few while along might close something seem next hard open example begin
life always those both paper together got group often run important until children side feet car mile night walk
white sea began grow took river four carry state once book hear stop without second later miss idea enough eat
face watch far really almost let above girl sometimes mountain cut young talk soon list song being leave family
"""
WORDS = TEXT.split()


def words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))
