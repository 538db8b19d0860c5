//! Compiles the pages of the guide, and compares other limiters with what they are translated to.
