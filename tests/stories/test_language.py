"""Texts that are certainly not in English are told apart; English of any kind and short texts never
are."""

from __future__ import annotations

import pytest

from narrative_twins.data.loading import load_story_salience
from narrative_twins.stories.language import is_foreign

ENGLISH = {
    "prose": (
        "Omar cleaned the windows of the tallest tower in town. On the thirtieth floor a man was"
        " crying at his desk. He wrote two letters in the foam."
    ),
    "dialogue": (
        '"Go!" "No." "Go!" "Where?" "Home!" "Why?" "Because!" "Mum?" "Now, Tom!" "Fine." "Good."'
        ' "Bye." "Bye!" "Wait." "What?" "Shoes!" "Oh." "Socks!" "Ugh." "Hat!" "Mum!" "Go!"'
    ),
    "verse": (
        "Grey sea, grey sky, one gull.\nA rope on stones, wet sand, a boat half drowned.\nNobody"
        " calls. Salt wind, salt bread, salt hands.\nWe wait for sails, for smoke, for any sign."
    ),
    "names": (
        "Señora de la Cruz and Herr von der Heide met Mme du Lac at the Café de la Paix in Paris."
        " They spoke of Der Rosenkavalier and of La Traviata, and then the waiter came with the"
        " bill."
    ),
    "quotation": (
        "She said, « Je ne sais pas où il est », and then she sat down in the chair by the window"
        " and would not say another word to any of us until the morning."
    ),
}
FOREIGN = {
    "German": (
        "Der Junge saß ganz oben im Kirschbaum und wollte nicht herunter, so sehr die Mutter auch"
        " rief. In der Nacht war das Gewitter gekommen, und er hatte Angst."
    ),
    "French": (
        "Le train est parti sans eux, et son frère a haussé les épaules. Il y en avait un autre à"
        " midi. Un pigeon vint voir s'il y avait du pain."
    ),
    "Spanish": (
        "Julia no estaba en el mercado, ni en la plaza. Ana salió corriendo a la calle y le"
        " preguntó a un vecino. Nadie la había visto desde el lunes."
    ),
    "Polish": (
        "Chłopiec siedział na drzewie i nie chciał zejść, chociaż matka go wołała. W nocy przyszła"
        " burza i wszyscy się bali. Nie powiedział o tym nikomu."
    ),
    "Finnish": (
        "Poika istui puussa eikä halunnut tulla alas, vaikka äiti huusi. Yöllä tuli ukonilma ja"
        " kaikki pelkäsivät. Hän ei ollut kertonut siitä kenellekään, mutta nyt oli myöhäistä."
    ),
    "Russian": (
        "Старик открыл дверь и увидел внучку. Она держала в руках письмо и молчала. На улице шёл"
        " дождь, и ветер качал старую яблоню у самого дома. Никто не знал, что делать."
    ),
    "Chinese": (
        "他打开门，看见孙女站在门口，手里拿着一封信，什么也没说。外面下着雨，风吹着门前的老苹果树。"
        "没有人知道该怎么办。"
    ),
}


@pytest.mark.parametrize("kind", ENGLISH)
def test_english_is_not_foreign(kind):
    assert not is_foreign(ENGLISH[kind])


@pytest.mark.parametrize("language", FOREIGN)
def test_other_languages_are_but_nothing_is_said_of_short_texts(language):
    text = FOREIGN[language]
    assert is_foreign(text)
    assert not is_foreign(text[:20] if language == "Chinese" else " ".join(text.split()[:15]))


def test_no_story_of_the_package_is_foreign():
    for split in load_story_salience(name="stories").values():
        texts = [" ".join(story) for story in split["story"]]
        assert len(texts) > 20 and not any(map(is_foreign, texts))
