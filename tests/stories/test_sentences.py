"""Splitting of raw text: direct speech, quotations of several languages, headings, lines and
paragraphs."""

import pickle
import time
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story, StoryError, split_sentences
from narrative_twins.stories.headings import find_headings
from narrative_twins.stories.sentences import SPLITTERS, check_splitter

from support.strategies import any_text

LANGUAGES = ["de", "fr", "xx"] if find_spec("sentencex") else []

SENTENCES = """
"Stop!" I cried. / The dog stopped.
"Who's there?" Mr. Bennet asked. / Nobody answered.
“Who’s there?” Mr. Bennet asked. / Nobody answered.
'Row!' Aunt Ruth and Tom shouted. / 'I am rowing!' I shouted back.
"Wait..." Tom said. / “Wait…” Tom said.
"No!" Tom snapped, "go away." / He did.
"Who is it?" Mary asked the old man, who knew. / He said nothing.
"I know." Tom said. / "Me too." She said.
"I know," she said. / "You told me."
"I know. / You told me!" I said.
"They're alive…" / Up above it was Sunday.
MRS. BENNET RAN TO DR. MARSH. / CAPT. ROY OF THE HMS. / IT SANK.
„Hilfe!“ schrie er. / „Komm!“ / „Gleich“, sagte Anna.
»Hilfe!« schrie er. / »Komm!« / Sie kam.
« Arrête ! » cria-t-il. / « Non ! » / Elle partit.
«¿Qué pasa?» preguntó él. / «¡Nada!» / Nadie habló.
— Кто там? — спросил дед. / «Не может быть!» — подумал он. / Он открыл дверь.
— Qui est là ? demanda-t-elle. / Personne.
“…Then” he said. / …And left. / He waited… one minute.
I saw the film (V.O.). / It was long.
“But I thought—” / The door slammed. / 'I was--' / "Run, or-" / Nobody ran. / “I only –” Hanna began.
«Mais je—» / Elle partit. / "Where is —" / "Here!"
“Can it be — ?” / The inn fell still. / “Wait !” / She stopped.
“But why . . .” / Otto stopped. / It was cold . . . and dark. / “Who . . . ?” / Runa left.
He waited … / Nobody came. / He ran⁠ ⁠… / It rained. / „Was …“ / Er ging.
She left. / ...He was right. / “Then?” / …And left. / He had a .45 pistol ... and ran.
"He said, 'Never.'" / She left. / “He said, ‘Run!’” / Otto ran. / ‘He said, “Run!”’ / It rained.
*He ran.* / She stayed. / _Why?_ / Nobody knew. / **Stop!** / <i>He ran.</i> / It rained. / "_You!_" said Runa.
Runa hides the map.[3] / Otto finds it.[a] / He burns it.¹ / It rained.[4][5] / She slept.<sup>2</sup> / He did not.
"Yes," said I. / "Now go." / So did I. / She left. / It was plan A. / Otto knew. / He met J. Edgar Hale by I. Low.
They ran, hid, etc. / She did not. / He came at 5 p.m. / Then it rained. / It was in his cap. / Otto knew.
They sailed to the U.S. / Otto stayed. / The U.S. Army fled. / She came at 5 p.m. / Hanna slept. / At 5 p.m. Monday was over.
Lt. Brook wept. / Mme. Vale slept. / The Rev. Hale and Sgt. Vale ran. / Insp. Low met Messrs. Hale. / GOV. HILL SAW MAJ. LOW.
He loved her (he said so.) / She left. / He left (she stayed!) and wept.
He saw a boat -- a boat! -- and ran. / "Hush!" --said Otto. / "Hush!" — said Otto.
`` Who did it ? '' asked Otto . / " Not me ! " said Runa . / ' Nor me ! ' said Mr . Hill . / The mill burned .
A kite hung there. / " Who flies it? " Asked Runa. / " Me. " / It fell.
runa woke. / mr. hale slept... but the barn was cold. / "who is it?" asked otto. / it rained.
—Where is the key? Hanna asked. / —In the well, Otto said. / I dropped it.
OTTO. [Aside.] Only me. / I slept.
"""
TAGS = """Otto snarled.|Otto laughed.|Runa responded.|Otto spat.|Otto mused aloud.|Otto's mother asked.|Otto’s old aunt demanded.
|Otto and Runa asked together.|Otto asked no one in particular.|Otto, who was old, asked.|the old man wondered.
|The old man demanded.|Otto and his aunt asked at once.|Asked Runa.|Sgt. Vale barked.|I snarled, and ran."""


ACTIONS = """The dog ran.|He cried.|Tom ran.|Tom called the dog.|Tom called for help.|Tom said nothing.
|Tom said it was late.|Tom ordered a beer.|Tom asked her to go.|Tom told the old man to go.
|Then Tom shouted.|Everybody shouted.|Tom began to run.|Tom shouted, "Come here!"
|Tom shouted: "Come here!"|The old man told him about it.|Tom shrugged.|Tom turned away.|Tom fled.|Tom waved.|The door slammed.
|Tom's aunt nodded.|Thus Tom's fate was settled.|Saying this, Tom left."""


@pytest.mark.parametrize("line", SENTENCES.strip().split("\n"))
def test_sentences_end_with_their_marks_and_speech_with_its_tag(line):
    for space in (" ", "\n"):
        assert split_sentences(line.replace(" / ", space)) == line.split(" / ")


def test_any_verb_that_ends_a_short_clause_after_speech_says_who_spoke_but_for_actions():
    for speech in ('"Stop!"', "“Who?”", "“But I—”"):
        for tag in TAGS.replace("\n", "").split("|"):
            sentences = [f"{speech} {tag}", "It rained."]
            assert split_sentences(" ".join(sentences)) == sentences
    for speech in ('"Stop!"', "“Stop!”"):
        for action in ACTIONS.replace("\n", "").split("|"):
            assert split_sentences(f"{speech} {action}") == [speech, action]


# ¶ is a blank line, and \n a line break.
PLAYS = r"""
It rained. / MARTA (V.O.)\nI knew. / It was cold. / THE BOY (CONT'D)\nSo? / JOSÉ (O.S.)\nNo. / HALE\n(to JO)\nYes.
RUNA.¶[_Rising._] Who is there? / MRS. HALE. / Only me. / RUNA.¶Come in. / Sit. / THE END.
RUNA¶Who is there? / OTTO (softly)¶Only me. / It rained. / RUNA¶Come in. / THE END
RUNA. Who is there? / OTTO.¶[Aside.]¶Only me. / RUNA:¶Come. / OTTO.¶So. / WAITER.¶Soup? / It rained.
Runa.¶Who is there? / Otto.¶Me. / So. / Runa.¶Come. / Otto.¶So. / Runa.¶No. / Otto.¶Why? / Well. / It rained.
_Ogre._ Ha. / Witch. Why? / Ogre. Ha. / Witch. No. / Ogre. Yes. / Witch. So. / Ogre. Now!
It rained. / Otto. / He slept. / It rained. / Otto. / He slept. / It rained. / Otto. / He ran.
"""


@pytest.mark.parametrize("play", PLAYS.strip().split("\n"))
def test_the_name_of_a_speaker_is_one_sentence_with_the_speech(play):
    sentences = play.replace("¶", "\n\n").replace(r"\n", "\n").split(" / ")
    text = "\n\n".join(sentences)
    assert split_sentences(text) == sentences


# Names of who speaks begin lines, and come again or have directions.
CUES = r"""
RUNA. Who is there? / It rained. / NO WAY. / RUNA. Then he ran.
RUNA. Who is there? / OTTO. [Aside.] Only me. / WAITER. Soup? / It rained.
_Witch._ Come in. / Sit down. / _Ogre._ Never. / _Ogre._ Ha. / _Witch._ Sit.
RUNA WOKE AT DAWN. / THE LAMP WAS COLD. / OTTO HAD TAKEN THE MAP. / SHE RAN. / RUNA WOKE AT DAWN. / SHE RAN.
HARBOUR TOWN, 1912. / Otto wrote a letter. / MARCH 3. / We left. / MARCH 3. / We left again.
LONDON. / It rained. / MIDNIGHT. / The bell rang. / PARIS. / It snowed.
_Never._ / He ran. / RUNA. / Nobody spoke again.
"""


@pytest.mark.parametrize("line", CUES.strip().split("\n"))
def test_words_in_capitals_before_a_full_stop_are_a_name_only_in_a_play(line):
    assert split_sentences(line.replace(" / ", "\n")) == line.split(" / ")


UNSEEN = "\u200b\u200c\u200d\u200e\u200f\u00ad\u2060\ufe0f\ufeff\u202a\u202c\u2066\u2069\u061c"
ENDS = """
She found it! 🎉 / They danced all night. 🎉🎉 / Otto slept. 😴 / It rained.
Runa won the race 🏆. / It rained. / Otto cried 😭! / He went home 🏠🏃. / Why 🤷🏽‍♀️? / Nobody knew.
“She won 🏆!” / “Yes! 🎉” / "We won. ❤️" / It rained. 1️⃣ / The flag fell. 🇩🇪 / It rained… ☔️ / He ran.
She won. :) / He wept. :-( / They ran ;) . / It rained. <3 / Then it stopped.
"Stop! 😡" Tom shouted. / He ran.
बिल्ली गई। / वह कहाँ है? / कोई नहीं जानता॥ / दोहा एक ॥१॥ / दोहा दो ॥ २ ॥ / अंत।
بلی گئی۔ / وہ کہاں ہے؟ / بارش ہوئی۔
ድመቷ ጠፋች። / የት ሄደች፧ / ዝናብ ዘነበ፡፡ / አለቀ።
Կատուն գնաց։ / Անձրև էր գալիս։
Η γάτα έφυγε. / Πού πήγε; / Έβρεχε.
বিড়ালটি গেল। / বৃষ্টি হল।
ឆ្មាបាត់។ / ភ្លៀងធ្លាក់។
"""


@pytest.mark.parametrize("line", ENDS.strip().split("\n"))
def test_emoji_and_full_stops_of_other_scripts_end_sentences(line):
    assert split_sentences(line.replace(" / ", " ")) == line.split(" / ")


@pytest.mark.parametrize("unseen", UNSEEN)
def test_characters_that_are_not_seen_do_not_hide_the_end_of_a_sentence(unseen):
    sentences = [f"Runa woke.{unseen}", "It rained.", f"“Otto ran!{unseen}”{unseen}", "She fell."]
    assert split_sentences(" ".join(sentences)) == sentences
    sentences = [
        f"Runa woke{unseen}.",
        f"{unseen}It rained.",
        f'{unseen}"No!" Otto said.',
        "He ran.",
    ]
    assert split_sentences(" ".join(sentences)) == sentences


# Speech and who spoke are one sentence, by the default and by the rules of the language.
TAGS_OF_LANGUAGES = """
zh:猫不见了。/“它去哪儿了？”小花问。/没有人回答。
zh:「走吧！」他说。/“好。”/“再见。”
ja:猫が消えた。/「どこへ行ったの？」とハナは聞いた。/誰も答えなかった。
ko:고양이가 사라졌다. / “어디 갔어?” 하나가 물었다. / "여기 있어!"라고 민수가 대답했다. / 비가 왔다.
ar:اختفت القطة. / "أين ذهبت؟" سألت هناء. / «هنا!» قال سامي. / لم يجب أحد.
fa:گربه رفت. / «کجا رفت؟» هانا پرسید. / باران آمد.
ur:بلی گئی۔ / "وہ کہاں گئی؟" ہانا نے پوچھا۔ / بارش ہوئی۔
hi:बिल्ली गई। / “वह कहाँ गई?” हाना ने पूछा। / "यहाँ।" / बारिश हुई।
vi:Con mèo biến mất. / “Nó đi đâu?” Hoa hỏi. / "Đây!" anh nói. / Không ai trả lời.
tr:Kedi kayboldu. / “Nereye gitti?” diye sordu Ayşe. / "Burada!" Ali bağırdı. / Yağmur yağdı.
"""


@pytest.mark.parametrize("line", TAGS_OF_LANGUAGES.strip().split("\n"))
def test_speech_and_who_spoke_are_one_sentence_in_every_language(line):
    language, _, text = line.partition(":")
    space = "" if language in ("zh", "ja") else " "
    sentences = [sentence.strip() for sentence in text.split("/")]
    for splitter in (None, language) if LANGUAGES else (None,):
        assert list(Story.parse(space.join(sentences), splitter=splitter).sentences) == sentences


def test_sentences_without_spaces_between_them():
    sentences = ["你好。", "我走了！", "“走吧！”他说。", "“好。”", "“再见。”"]
    assert split_sentences("".join(sentences)) == sentences


def test_time_is_linear():
    text = 'Otto woke. "Why?" Runa asked.\n\n' * 10_000
    started = time.process_time()
    assert len(split_sentences(text)) == 20_000
    assert time.process_time() - started < 30  # with the square of the paragraphs: minutes


marks = st.text("aA .!?…\"'“”„«»’—\n;。-*_`[](<>/1I\u200b", max_size=40)


@given(marks | st.lists(any_text, max_size=4).map(" ".join), st.sampled_from([None, *LANGUAGES]))
def test_no_character_is_lost_or_changed(text, language):
    found = split_sentences(text, language)
    assert "".join("".join(found).split()) == "".join(text.split())
    end = 0
    for sentence in found:
        end = text.index(sentence, end) + len(sentence)


def headings(text: str) -> list[str]:
    return [text[start:end] for start, end in find_headings(text)]


HEADINGS = """Chapter 1|CHAPTER IV. The Storm|Chapter 12: What the sea left|Chapter Twenty-One|PART TWO.
|Act I|**Chapter 3**|Epilogue|PROLOGUE.|INT. HOUSE - DAY|12 EXT. ROCKS BELOW - NIGHT 12
|INT./EXT. CAR - DAWN|### What now?|Chapter 2. Who Took the Map?|CHAPTER I. THE FERRY.|Kapitel 3|KAPITEL EINS|3. Kapitel: Die Mühle|Глава 1
|Erstes Kapitel|Chapitre premier|CHAPITRE III. La grange|Première partie|Capítulo primero|EPOCH THE LAST.
|The Second Act|Rozdział 3|877화. 바람|제1장|第一章|第一章 谷仓|第二章 谁拿了地图？|第12回：谷仓"""


def test_headings_are_no_sentences():
    places = "{}\n\nIt rained. He ran.", "It was late.\n{}\nIt rained.", "A b.\r\n\r\n{}\r\nC."
    for heading in HEADINGS.replace("\n", "").split("|"):
        for text in (place.format(heading) for place in places):
            assert headings(text) == [heading]
            story = Story.parse(text)
            assert heading not in story.sentences and heading in story.text
            assert heading in " ".join(Story.parse(text, splitter=split_sentences).sentences)


NO_HEADINGS = """Chapter 1 was the best.|Part two was hard|Part 2. It was harder. He ran.
|Act I did not like|Letter to Mary|chapter 1|int. house - day|INT. house|#hashtag|# blessed today|THE END
|NO TRESPASSING|I|42|1984.|The Storm|Prologue to a storm|First act was good|3화까지 보았다.|第一章很好。"""


def test_what_may_be_a_sentence_is_no_heading():
    for line in NO_HEADINGS.replace("\n", "").split("|"):
        assert headings(f"It rained.\n\n{line}\n\nHe ran.") == []


LINES = f"{{}}\n\n{'It rained. ' * 20}\n\n" * 3


def test_headings_stand_apart_and_numbers_count_from_one():
    for text, expected in (
        ("It is told in\nChapter 1\nof the book.", ""),
        ("It is told in\nChapter 1\n\nThe book.", ""),
        ("It is told.\n\nChapter 1\nof the book.", ""),
        ("CHAPTER I.\n\nDown the Rabbit-Hole\n\nAlice ran.", "CHAPTER I.|Down the Rabbit-Hole"),
        ("Chapter 1\n\nAlice ran away\n\nIt rained.", "Chapter 1"),
        ("CHAPTER I.\n\nThe Old Mint.\n\nAlice ran.", "CHAPTER I.|The Old Mint."),
        ("CHAPTER I\n\nAda Ran.\n\nIt rained.", "CHAPTER I"),
        (LINES.format("THE BARN", "THE MILL", "THE SEA"), "THE BARN|THE MILL|THE SEA"),
        (LINES.format("THE BARN", "THE MILL", "KEEP OUT!"), ""),
        (LINES.format("RUNA", "THE MILL", "RUNA"), ""),
        ("CHAPTER I\n\nIt rained.\n\n" + LINES.format("BY ME", "NO WAY", "KEEP OUT"), "CHAPTER I"),
        ("I\n\nHe ran.\n\nII\n\nIt rained.\n\n7\n\nIII.\n\nHe fell.", "I|II|III."),
        ("1.\n\nHe ran.\n\n2.\n\nIt rained.", "1.|2."),
        ("2\n\nHe ran.\n\n3\n\nIt rained.", ""),
        ("Chapter 1\n\n* * *\n\nIt rained.", "Chapter 1"),
    ):
        assert "|".join(headings(text)) == expected
    # A text of nothing but headings keeps them.
    assert "".join(Story.parse("# A\n\n# B").sentences) == "# A# B"


PROSE = "Runa walked to the river, and nobody was there. " * 5


def sections(*titles: str) -> str:
    return "".join(f"{title}\n\n{PROSE}\n\n" for title in titles)


# Headings with prose between them, as the only text.
RUNS = """
Chapter 1. The Barn|Chapter 2. Who took the map?|Chapter 3. The Mill
Chapter 1. The Barn.|Chapter 2. “The Gull”|Chapter 4. Nobody!|Chapter 5: 'Stop!'|Chapter Six — Wait...
CHAPTER I. THE FERRY.|CHAPTER II. WHO IS THERE?|CHAPTER III. “ROW!”
Capítulo 1. La casa.|Capítulo 2. ¿Quién tomó el mapa?|Глава 1. Дом.|Глава 2. «Кто там?»
Kapitel 1. Das Haus.|Kapitel 2. Wer hat die Karte?|Chapitre 1. La grange.|Chapitre 2. « Qui est là ? »
1. The Barn|2. Who Took the Map?|3. The Mill.|4. “The Gull”|5. The End!
I. THE FERRY.|II. WHO IS THERE?|III. THE MILL
7. The Boat.|8. Who Took the Map?
[ 1 ]|[ 2 ]|[ 3 ]
— I —|— II —|— III —
* 1 *|* 2 *|* 3 *
(1)|(2)
I.|II.|III.
THE BARN|THE LAMP|THE BARN|THE ROPE|THE MILL
# One|# Two
# one
"""


def test_a_single_number_with_a_sentence_after_it_is_no_heading():
    for text in ("I. Nadia ran.", "I. Nadia the.", f"1. The mill burned.\n\n{PROSE}"):
        assert not find_headings(text)
    assert find_headings(f"1. The Mill\n\n{PROSE}") == [(0, 11)]


@pytest.mark.parametrize("run", RUNS.strip().split("\n"))
def test_a_title_is_part_of_the_run_of_its_numbers_whatever_mark_it_ends_in(run):
    titles = run.split("|")
    text = sections(*titles)
    assert headings(text) == titles
    assert not {*titles} & {*Story.parse(text).sentences}


SIGNS = """
Somebody had written with chalk:|MEET ME AT THE MILL
There was a sign on the door.|NO ENTRY AFTER DARK
A boy brought her a telegram.|COME HOME STOP FATHER ILL STOP
The bill read|THE GULL
"""


def test_lines_in_capitals_that_the_text_introduces_are_text():
    signs = [line.split("|") for line in SIGNS.strip().split("\n")]
    text = sections("THE SALT ROAD", *("\n\n".join(sign) for sign in signs))
    assert headings(text) == []
    text = sections("THE BARN", "THE LAMP", *("\n\n".join(sign) for sign in signs), "THE ROPE")
    assert headings(text) == ["THE BARN", "THE LAMP", "THE ROPE"]


NO_RUNS = """
1. a lamp|2. a rope|3. a knife
1. He went home.|2. She stayed there.|3. It rained.
Part 1. It was hard. He ran.|Part 2. It was harder. He fell.
[ 7 ]|It rained.|[ 3 ]
"""


@pytest.mark.parametrize("run", NO_RUNS.strip().split("\n"))
def test_numbers_before_sentences_are_no_headings(run):
    assert headings(PROSE + "\n\n" + sections(*run.split("|"))) == []


def test_lines_and_paragraphs():
    verse = "Sonnet\n\nThe sea was grey,\nthe sky was grey.\n\nChapter 2\n\nA gull\nwent by."
    lines = "Sonnet|The sea was grey,|the sky was grey.|A gull|went by."
    paragraphs = "Sonnet|The sea was grey,\nthe sky was grey.|A gull\nwent by."
    for name, expected in (("lines", lines), ("paragraphs", paragraphs)):
        story = Story.parse(verse, splitter=name)
        assert "|".join(story.sentences) == expected
        assert [verse[start:end] for start, end in story.spans] == list(story.sentences)
    assert "Chapter 2" in Story.parse(verse, splitter=SPLITTERS["lines"]).sentences


def test_a_sentence_is_located_after_an_equal_heading():
    text = "Part One: The End\n\nThe End was near. It came."
    assert Story.parse(text).spans[0] == (text.rindex("The End"), text.index(" It came"))


OTHER_LANGUAGES = """
de: Im 19. Jahrhundert lebte er im 3. Stock. / Es waren 19. / Am Tag kam sie.
de: Am 3. Oktober kam Dr. Vogt. / „Wer ist da?“, rief sie. / „Ich bin es. / Lass mich ein, z. B. heute!“
de: »Wir gehen«, sagte er. / Es war ca. 9 Uhr. / ›Gut. / Geh.‹ / „Er sagte: ‚Nein.‘ / Das war alles.“
fr: « Il y a quelqu'un ? » demanda-t-il. / — Entrez ! dit-elle. / « Assez. / Le thé est chaud. »
es: —¡Soy yo! —gritó él—. / «¿Dónde está?», preguntó la Sra. Ruiz. / ¡Nadie lo sabía!
ru: — Кто там? — спросил он. / Ветер в 8 ч. вечера. / — Это я. / Откройте!
it: Il sig. Verdi partì. / «Entrate!» disse lei. / L'acqua saliva.
hi: बूढ़े ने दरवाज़ा बंद किया। / "कौन है?" उसने पूछा। / "मैं।"
ar: من هناك؟ / سأل الرجل. / كانت السماء تمطر!
el: Ποιος είναι; / Ο κ. Παππάς χτύπησε.
hy: Ջրաղացպանը փակեց դուռը։ / Անձրև էր գալիս։
"""


@pytest.mark.parametrize("line", OTHER_LANGUAGES.strip().split("\n"), ids=lambda line: line[:2])
def test_sentences_of_other_languages(line):
    pytest.importorskip("sentencex")
    language, _, text = line.partition(": ")
    sentences = text.split(" / ")
    story = Story.parse(f"# {language}\n\n{' '.join(sentences)}", splitter=language)
    assert list(story.sentences) == sentences, "without the heading"
    assert (
        pickle.loads(pickle.dumps(check_splitter(language)))(text.replace(" / ", " ")) == sentences
    )


@given(st.lists(any_text | st.sampled_from(["# A", "Chapter 1", "I", "II", "INT. A"]), max_size=6))
def test_letters_are_in_a_sentence_or_in_a_heading(lines):
    text = "\n\n".join(lines)
    try:
        story = Story.parse(text)
    except StoryError as error:
        assert "empty" in str(error)
        return
    covered = {at for lo, hi in (*story.spans, *find_headings(text)) for at in range(lo, hi)}
    assert all(at in covered for at, char in enumerate(text) if char.isalnum())
    assert [text[start:end] for start, end in story.spans] == list(story.sentences)


def test_auto_is_the_default():
    assert check_splitter("auto") is check_splitter(None) is SPLITTERS["sentences"]
