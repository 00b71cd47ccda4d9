//! Views of the packet fields that evenkeel endpoints and routers read and write.
