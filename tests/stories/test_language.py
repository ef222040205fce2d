"""Texts that are certainly not in English are recognized; English of any kind and short texts never
are."""

from __future__ import annotations

from narrative_twins.data.loading import load_story_salience
from narrative_twins.stories.language import is_foreign

ENGLISH = """
"Go!" "No." "Go!" "Where?" "Home!" "Why?" "Because!" "Mum?" "Now, Tom!" "Fine." "Good." "Bye." "Bye!" "Wait." "What?"
Grey sea, grey sky, one gull. A rope on stones, wet sand, a boat half drowned. Nobody calls. Salt wind, salt bread.
Señora de la Cruz and Herr von der Heide met Mme du Lac at the Café de la Paix, and then the waiter came with the bill.
She said, « Je ne sais pas où il est », and then she sat down in the chair by the window and would not say a word.
"""
FOREIGN = """
Der Junge saß ganz oben im Kirschbaum und wollte nicht herunter, so sehr die Mutter auch rief. Er hatte Angst im Baum.
Le train est parti sans eux, et son frère a haussé les épaules. Il y en avait un autre à midi. Un pigeon vint voir.
Julia no estaba en el mercado, ni en la plaza. Ana salió corriendo a la calle y le preguntó a un vecino por ella.
Chłopiec siedział na drzewie i nie chciał zejść, chociaż matka go wołała. W nocy przyszła burza i wszyscy się bali.
Poika istui puussa eikä halunnut tulla alas, vaikka äiti huusi. Yöllä tuli ukonilma ja kaikki pelkäsivät. Hän ei
Старик открыл дверь и увидел внучку. Она держала в руках письмо и молчала. На улице шёл дождь, и ветер качал яблоню у
他打开门，看见孙女站在门口，手里拿着一封信，什么也没说。外面下着雨，风吹着门前的老苹果树。没有人知道该怎么办。
"""


def test_other_languages_are_foreign_but_neither_english_nor_short_texts():
    for text in ENGLISH.strip().split("\n"):
        assert not is_foreign(f"{text} {text}")
    for text in FOREIGN.strip().split("\n"):
        assert is_foreign(f"{text} {text}")
        assert not is_foreign(text[:20] if " " not in text else " ".join(text.split()[:15]))


def test_no_story_of_the_package_is_foreign():
    texts = map(" ".join, load_story_salience(split="validation")["story"])
    assert not any(map(is_foreign, texts))
