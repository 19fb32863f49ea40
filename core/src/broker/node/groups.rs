//! How groups are configured on a broker, and the requests about that: 200, 201, 207, 352.
//= rocketmq: SubscriptionGroupManager, AdminBrokerProcessor

use alloc::format;

use super::super::post::Refusal;
use super::Serving;
use super::names::{GROUP_MAX, is_legal};
use super::serve::Asked;
use crate::ids::ConsumerGroup;
use crate::wire::code::ResponseCode;
use crate::wire::request::Done;
use crate::wire::request::groups::{
    DeleteGroupRequest, GroupConfigRequest, GroupListRequest, GroupTable, SubscriptionGroupConfig,
    UpdateGroupRequest,
};

impl Serving<'_> {
    /// A group's configuration, made if need be and allowed.
    pub(super) fn group(&mut self, group: &ConsumerGroup) -> Result<&SubscriptionGroupConfig, Refusal> {
        if !self.disk.groups.contains_key(group)
            && self.cx.settings.auto_create_group
            && is_legal(group.as_str(), GROUP_MAX)
            && self.has_room_for_group()
        {
            let config = SubscriptionGroupConfig::new(group.clone());
            self.disk.put_group(self.cx.wall, config);
        }
        self.disk.groups.get(group).ok_or_else(|| no_group(group))
    }

    fn has_room_for_group(&self) -> bool {
        self.disk.groups.len() < self.cx.settings.groups_max
    }

    pub(super) fn on_update_group(&mut self, asked: &Asked<'_, '_>) {
        if asked.body.is_empty() {
            // Nothing is to be updated, which is a success.
            return self.cx.post.answer(self.cx.now, asked.to, &Done);
        }
        self.answer(asked, Self::update_group);
    }

    fn update_group(&mut self, _: &Asked<'_, '_>, request: UpdateGroupRequest) -> Result<Done, Refusal> {
        let UpdateGroupRequest(config) = request;
        let group = &config.group;
        if !is_legal(group.as_str(), GROUP_MAX) {
            let remark = format!("The specified group[{group}] is illegal");
            return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
        }
        if !self.disk.groups.contains_key(group) && !self.has_room_for_group() {
            let remark = "this broker has no room for more groups";
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        self.disk.put_group(self.cx.wall, config);
        Ok(Done)
    }

    pub(super) fn group_config(
        &mut self,
        _: &Asked<'_, '_>,
        request: GroupConfigRequest,
    ) -> Result<SubscriptionGroupConfig, Refusal> {
        self.group(&request.group).cloned()
    }

    pub(super) fn group_list(
        &mut self,
        _: &Asked<'_, '_>,
        request: GroupListRequest,
    ) -> Result<GroupTable, Refusal> {
        let count = |number: Option<i32>| number.and_then(|number| usize::try_from(number).ok());
        let groups = self.disk.groups.iter();
        let page = groups
            .skip(count(request.skip).unwrap_or(0))
            .take(count(request.limit).unwrap_or(usize::MAX));
        Ok(GroupTable {
            data_version: self.disk.groups_version,
            groups: page
                .map(|(name, config)| (name.clone(), config.clone()))
                .collect(),
            total: i32::try_from(self.disk.groups.len()).ok(),
        })
    }

    /// Always a success. Without its offsets a group is looked up again once it is deleted, which makes
    /// it anew where groups may be made.
    pub(super) fn delete_group(
        &mut self,
        _: &Asked<'_, '_>,
        request: DeleteGroupRequest,
    ) -> Result<Done, Refusal> {
        self.disk.remove_group(self.cx.wall, &request.group);
        if request.clean_offset {
            self.disk.offsets.remove_group(&request.group);
        } else {
            let _made_anew = self.group(&request.group);
        }
        Ok(Done)
    }
}

/// The refusal of a group that is not there.
pub(super) fn no_group(group: &ConsumerGroup) -> Refusal {
    let remark = format!("subscription group [{group}] does not exist");
    Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
}

#[cfg(test)]
mod tests;
