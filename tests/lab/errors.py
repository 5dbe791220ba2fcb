"""The two ways in which the lab can fail, told apart because only one of them may turn into a skipped test."""


class LabError(Exception):
    """The lab was started and something in it went wrong."""


class LabUnavailableError(LabError):
    """This machine cannot run the lab; the message names what is missing and how to get it."""
