"""Whether a text is in English, as far as that is certain.

Function words are a fifth or more of the words of any English prose, and tell languages apart in a
few lines. A library that names a hundred languages would be larger than the package, and is not
needed to know that a text is not English.
"""

from __future__ import annotations

import re

_ENGLISH = set(
    """a about after all am an and any are as at back be because been but by can could did do for
    from get go got had has have he her him his how i if in into is it its just like me my no not
    now of off on one or our out over said she so some that the their them then there they this to
    too up us very was we were what when where which who why will with would you your""".split()
)
# The commonest words of German, Dutch, French, Spanish, Italian, Portuguese, Swedish, Danish and
# Norwegian, Polish and Czech, without those that are English words too.
_FOREIGN = set(
    """aber auch auf aus bei das dass dem den der des doch du ein eine einen einer er es ging hatte
    ich ihm ihn ihr im mit nach nicht noch nur sagte sich sie und uns vom von vor war weil wenn wie
    zu zum zur über de een en haar het hij ik je maar met naar niet nog om ook op te toen van voor
    wat werd zei zijn ze zich au aux avait avec ce cette dans elle est et était il ils la le les
    leur lui mais ne nous où par pas plus pour qu que qui sa sans se ses sur tout un une vous al
    como cuando del el ella ellos era esta están estaba había las lo los más muy nada para pero por
    su sus también todo una yo y ya anche aveva che chi ci da dei della di gli ho lei ma mi nel
    nella non per più quando quella questo si sono ti tutto ao com dele dos ela ele em eram essa
    estava eu foi isso mas nem não nos os ou pela pelo quem seu sua também tinha uma att av blev det
    dig ej eller ett från för han hade hon honom hur inte jag kan mig med mot när och på sade sig
    ska som så till under upp ut var vi är af at efter hans havde hun ikke ind jeg kom meg ned og
    sagde seg til ud ved være ale bo był była było być co czy do go jak jej jest już któ która który
    mu na nie od po przez się tak to tylko tym w we z za że ani aby byl byla být jako jeho její jen
    jsem ke když který mezi nebo nic pak pod pro proti před ten už ve však že""".split()
)
_FOREIGN -= _ENGLISH
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")
_LETTER = re.compile(r"[^\W\d_]")
# Thai, Lao, Burmese, Khmer, Japanese, Chinese.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
)  # Chinese, Japanese, Thai ...

MIN_WORDS = 20
"""Shorter texts are not judged. In scripts without spaces between words, two letters count as a
word."""
_MIN_FOREIGN = 0.15  # in English prose a few hundredths at most
_MAX_ENGLISH = 0.05  # of languages that are not listed
_READ = 4000  # characters from the beginning


def is_foreign(text: str) -> bool:
    """Whether a text is certainly not in English: most of its letters are not Latin, or many of its
    words are function words of other languages and fewer are those of English, or almost none are.
    False for short texts.
    """
    text = text[:_READ]
    words = _WORD.findall(text.lower())
    letters, unspaced = len(_LETTER.findall(text)), len(_UNSPACED.findall(text))
    if (len(words) if unspaced < letters / 2 else unspaced / 2) < MIN_WORDS:
        return False
    if len(_LATIN.findall(text)) < letters / 2:
        return True
    english, foreign = (
        sum(word in known for word in words) / len(words) for known in (_ENGLISH, _FOREIGN)
    )
    return english < _MAX_ENGLISH or foreign > max(_MIN_FOREIGN, english)
