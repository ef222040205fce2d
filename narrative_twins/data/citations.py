"""Publications of data sets, in BibTeX."""

from __future__ import annotations

NARRATIVE_TWINS = """
@misc{sterner-narrative-twins,
    title={Contrastive Learning with Narrative Twins for Modeling Story Salience},
    author={Igor Sterner and Alex Lascarides and Frank Keller},
}
"""
ROCSTORIES = """
@inproceedings{mostafazadeh-2016-corpus,
    title={A Corpus and Cloze Evaluation for Deeper Understanding of Commonsense Stories},
    author={Nasrin Mostafazadeh and Nathanael Chambers and Xiaodong He and Devi Parikh and Dhruv Batra and
        Lucy Vanderwende and Pushmeet Kohli and James Allen},
    booktitle={Proceedings of NAACL-HLT 2016},
    pages={839--849},
    year={2016},
}
"""
TRIPOD = """
@inproceedings{papalampidi-2019-movie,
    title={Movie Plot Analysis via Turning Point Identification},
    author={Pinelopi Papalampidi and Frank Keller and Mirella Lapata},
    booktitle={Proceedings of EMNLP-IJCNLP 2019},
    pages={1707--1717},
    year={2019},
}
"""
